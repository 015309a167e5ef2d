// A journal with rows that nobody wrote, or damaged bytes: opening and reading it may refuse them but must not crash,
// hang or invent states. A JSON object has the rows of all tables. Else the first byte chooses: 'b' damage of the file,
// three bytes each: two where, one what to flip; else lines "table column row value", in which `value` may be anything
// and a row 0 is added.

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "executor/journal/journal.h"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/run/control/event_text.h"
#include "tests/fuzz/mutate.h"

namespace {

using namespace scalai;
using executor::journal::Journal;

// A folder in memory of this process.
const std::string& folder() {
  static const std::string made = [] {
    std::string path = "/dev/shm/scalai-journal-fuzz-XXXXXX";
    SCALAI_CHECK(::mkdtemp(path.data()) != nullptr);
    static const std::string to_remove = path;
    std::atexit([] { std::filesystem::remove_all(to_remove); });
    return path;
  }();
  return made;
}

// The file of a journal with events, a committed change and one under way.
const std::string& sound() {
  static const std::string bytes = [] {
    const std::string path = folder() + "/sound.db";
    {
      Journal journal = Journal::create(path, {"name: \"x\"", "digest", "reshard", "run"}).value();
      for (const char* line : {"0,started,,", "5,step_reached,0,5", "9,losses_known,,0 1"})
        SCALAI_CHECK(journal.append_event(line).ok());
      const int64_t first = journal.begin_transaction({.job = 0, .epoch = 1, .plan_digest = "aa"}).value();
      SCALAI_CHECK(journal.record_round({first, 1, ""}).ok() && journal.commit(first).ok() &&
                   journal.freed(first).ok());
      const int64_t second = journal.begin_transaction({.job = 0, .epoch = 2, .plan_digest = "bb"}).value();
      SCALAI_CHECK(journal.record_round({second, 1, "g0 1"}).ok());
    }
    return read_file(path).value();
  }();
  return bytes;
}

void change_rows(const std::string& path, const std::string& text) {
  static constexpr std::array<const char*, 4> kTables = {"run", "events", "transactions", "rounds"};
  sqlite3* database = nullptr;
  SCALAI_CHECK(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  sqlite3_exec(database, "PRAGMA synchronous=OFF; PRAGMA ignore_check_constraints=ON;", nullptr, nullptr, nullptr);
  std::istringstream lines(text);
  std::string line;
  for (int i = 0; i < 50 && std::getline(lines, line); ++i) {
    std::istringstream words(line);
    size_t table = 0;
    std::string column, value;
    int64_t row = 0;
    words >> table >> column >> row;
    std::getline(words >> std::ws, value);
    const bool plain = column.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos && !column.empty();
    if (table >= kTables.size() || !plain) continue;
    const std::string key = table == 3 ? "round" : "rowid";
    const std::string sql = row == 0
                                ? fmt::format("INSERT OR REPLACE INTO {0} SELECT * FROM {0} LIMIT 1", kTables.at(table))
                                : fmt::format("UPDATE {} SET {} = ?1 WHERE {} = ?2", kTables.at(table), column, key);
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) continue;
    if (!value.empty() && value.find_first_not_of("-0123456789") == std::string::npos) {
      sqlite3_bind_int64(statement, 1, std::strtoll(value.c_str(), nullptr, 10));
    } else if (value == "null") {
      sqlite3_bind_null(statement, 1);
    } else {
      sqlite3_bind_blob(statement, 1, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
    }
    sqlite3_bind_int64(statement, 2, row);
    sqlite3_step(statement);
    sqlite3_finalize(statement);
  }
  sqlite3_close(database);
}

// {"events": [[1, "0,started,,"], …], …}: these rows and no others.
constexpr const char* kSeed = R"({
"run": [[1, "name: \"x\"", "digest", "reshard", "run", 2]],
"events": [[1, "0,started,,"], [2, "5,step_reached,0,5"], [3, "9,losses_known,,0 1"], [4, "9,round_done,0,1"],
           [5, "11,execution_done,0,"], [6, "12,user_resize,0,4"], [7, "13,timer,,3"]],
"transactions": [[1, 0, 1, "aa", "freed"], [2, 0, 2, "bb", "committed"], [3, 1, 1, "cc", "prepared"]],
"rounds": [[1, 1, ""], [3, 1, "g0 1"], [3, 2, "g1 0 h0.mem 2"]]})";

void bind(sqlite3_stmt* statement, int at, const nlohmann::ordered_json& value) {
  if (value.is_number_integer()) {
    sqlite3_bind_int64(statement, at, value.get<int64_t>());
  } else if (value.is_number()) {
    sqlite3_bind_double(statement, at, value.get<double>());
  } else if (value.is_string()) {
    const auto text = value.get<std::string>();
    sqlite3_bind_text(statement, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  } else {
    sqlite3_bind_null(statement, at);
  }
}

void set_rows(const std::string& path, const nlohmann::ordered_json& tables) {
  sqlite3* database = nullptr;
  SCALAI_CHECK(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  sqlite3_exec(database, "PRAGMA synchronous=OFF; PRAGMA ignore_check_constraints=ON;", nullptr, nullptr, nullptr);
  for (const char* table : {"run", "events", "transactions", "rounds"}) {
    sqlite3_exec(database, fmt::format("DELETE FROM {}", table).c_str(), nullptr, nullptr, nullptr);
    const auto rows = tables.value(table, nlohmann::ordered_json::array());
    for (size_t i = 0; rows.is_array() && i < rows.size() && i < 50; ++i) {
      if (!rows[i].is_array() || rows[i].empty()) continue;
      std::string places = "?";
      for (size_t k = 1; k < rows[i].size(); ++k) places += ",?";
      sqlite3_stmt* statement = nullptr;
      const std::string sql = fmt::format("INSERT OR REPLACE INTO {} VALUES({})", table, places);
      if (sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) continue;
      for (size_t k = 0; k < rows[i].size(); ++k) bind(statement, static_cast<int>(k) + 1, rows[i][k]);
      sqlite3_step(statement);
      sqlite3_finalize(statement);
    }
  }
  sqlite3_close(database);
}

void read_all(Journal& journal) {
  SCALAI_CHECK(journal.controller_epoch() > 0);
  if (const auto events = journal.events(); events.ok()) (void)control::parse_event_lines(*events);
  const auto transactions = journal.transactions();
  if (!transactions.ok()) return;
  for (const executor::journal::Transaction& transaction : *transactions) (void)journal.rounds_of(transaction.id);
  const auto jobs = journal.jobs();
  if (!jobs.ok()) return;
  for (const executor::journal::JobRecord& job : *jobs) {
    SCALAI_CHECK(!job.prepared || job.prepared->state == executor::journal::TransactionState::kPrepared);
    const auto again = journal.job(job.job);
    SCALAI_CHECK(!again.ok() || *again == job, "a job's record is not what the list says");
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate_input(data, size, max_size, seed, [](std::string_view input, Random& random) {
    return fuzz::mutate_json(input, kSeed, random);
  });
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string path = folder() + "/run.db";
  for (const char* more : {"-wal", "-shm", ".lock"}) std::filesystem::remove(path + more);
  std::string bytes = sound();
  if (data[0] == 'b') {
    for (size_t i = 1; i + 2 < size; i += 3)
      bytes[(size_t{data[i]} << 8 | data[i + 1]) % bytes.size()] ^= static_cast<char>(data[i + 2]);
  }
  SCALAI_CHECK(write_file(path, bytes).ok());
  const auto tables = read_ordered_json({reinterpret_cast<const char*>(data), size});
  if (tables.ok() && tables->is_object()) {
    set_rows(path, *tables);
  } else if (data[0] != 'b') {
    change_rows(path, {reinterpret_cast<const char*>(data + 1), size - 1});
  }
  auto journal = Journal::open(path);
  if (journal.ok()) read_all(*journal);
  return 0;
}
