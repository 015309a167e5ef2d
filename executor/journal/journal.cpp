#include "executor/journal/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <mutex>

#include "ptc/base/file_descriptor.h"
#include "ptc/base/status.h"

namespace scalai::executor::journal {
namespace {

constexpr int64_t kSchemaVersion = 1;
constexpr int64_t kApplicationId = 0x5363616C;  // "Scal"

constexpr const char* kSchema = R"sql(
CREATE TABLE run(one INTEGER PRIMARY KEY CHECK(one = 1), scenario TEXT NOT NULL, scenario_digest TEXT NOT NULL,
                 strategy TEXT NOT NULL, run_id TEXT NOT NULL, controller_epoch INTEGER NOT NULL);
CREATE TABLE events(number INTEGER PRIMARY KEY, line TEXT NOT NULL);
CREATE TABLE transactions(id INTEGER PRIMARY KEY, job INTEGER NOT NULL, epoch INTEGER NOT NULL,
                          plan_digest TEXT NOT NULL,
                          state TEXT NOT NULL CHECK(state IN ('prepared', 'committed', 'freed', 'aborted')));
CREATE TABLE rounds(transaction_id INTEGER NOT NULL, round INTEGER NOT NULL, freed TEXT NOT NULL,
                    PRIMARY KEY(transaction_id, round)) WITHOUT ROWID;
)sql";

constexpr std::array<const char*, 4> kStateNames = {"prepared", "committed", "freed", "aborted"};

absl::Status precondition(const std::string& message) { return absl::FailedPreconditionError(message); }

// The one place where SQLite's codes become statuses.
absl::Status sqlite_error(sqlite3* database, const std::string& path, const std::string& doing) {
  const int code = sqlite3_errcode(database);
  const int system = sqlite3_system_errno(database);
  const std::string message = fmt::format("{}: cannot {}: {}", path, doing, sqlite3_errmsg(database));
  switch (code) {
    case SQLITE_FULL: return absl::ResourceExhaustedError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return absl::UnavailableError(message + ": another program has the journal open");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return invalid(message + ": not a journal, or damaged");
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY: return missing(message);
    default: break;
  }
  // A write that the quota refused, unlike a failed flush, has certainly not happened.
  if (sqlite3_extended_errcode(database) == SQLITE_IOERR_WRITE && system == EDQUOT) {
    return absl::ResourceExhaustedError(message);
  }
  return failed(system == 0 ? message : fmt::format("{} ({})", message, std::strerror(system)));
}

// A statement with its values, from the first to the last; text is copied.
class Statement {
 public:
  Statement(sqlite3* database, const std::string& path, const char* sql) : database_(database), path_(path) {
    code_ = sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int64_t value) {
    if (code_ == SQLITE_OK) code_ = sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  Statement& bind(std::string_view text) {
    if (code_ != SQLITE_OK) return *this;
    code_ = sqlite3_bind_text64(statement_, ++bound_, text.data() == nullptr ? "" : text.data(), text.size(),
                                SQLITE_TRANSIENT, SQLITE_UTF8);
    return *this;
  }
  // Runs it to its end; `row` is called for each row.
  absl::Status run(const std::string& doing, const std::function<void(const Statement&)>& row = nullptr) {
    if (code_ == SQLITE_OK) {
      while ((code_ = sqlite3_step(statement_)) == SQLITE_ROW) {
        if (row) row(*this);
      }
    }
    return code_ == SQLITE_DONE ? absl::OkStatus() : sqlite_error(database_, path_, doing);
  }
  int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes == nullptr ? "" : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  sqlite3* database_;
  const std::string& path_;
  sqlite3_stmt* statement_ = nullptr;
  int code_ = SQLITE_OK;
  int bound_ = 0;
};

absl::Status sync_folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const int fd = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = fd >= 0 && (::fsync(fd) == 0 || errno == EINVAL);
  const int error = errno;
  if (fd >= 0) ::close(fd);
  return synced ? absl::OkStatus() : failed(fmt::format("{}: cannot flush its folder: {}", path, std::strerror(error)));
}

Transaction transaction_of(const Statement& row) {
  Transaction transaction{row.number(0), static_cast<int>(row.number(1)), row.number(2), row.text(3), {}};
  const std::string name = row.text(4);
  for (size_t i = 0; i < kStateNames.size(); ++i) {
    if (name == kStateNames[i]) transaction.state = static_cast<TransactionState>(i);
  }
  return transaction;
}

}  // namespace

absl::StatusOr<JournalLock> JournalLock::take(const std::string& journal) {
  const std::string path = journal + ".lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    const std::string message = fmt::format("{}: cannot create: {}", path, std::strerror(errno));
    return errno == ENOSPC || errno == EDQUOT ? absl::ResourceExhaustedError(message) : missing(message);
  }
  JournalLock lock(journal, fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
    lock.name_owner();
    return lock;
  }
  if (errno != EWOULDBLOCK) return failed(fmt::format("{}: cannot lock: {}", path, std::strerror(errno)));
  std::array<char, 256> owner{};
  const ssize_t n = ::pread(fd, owner.data(), owner.size() - 1, 0);
  return absl::UnavailableError(fmt::format("{}: {} has it open; only one controller can run it", journal,
                                            n > 0 ? std::string(owner.data()) : "another process"));
}

bool JournalLock::is_abandoned(const std::string& journal) {
  const int fd = ::open((journal + ".lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const JournalLock lock(journal, fd);  // closes it, which ends a lock
  std::array<char, 256> owner{}, host{};
  ::gethostname(host.data(), host.size() - 1);
  const bool ours = ::pread(fd, owner.data(), owner.size() - 1, 0) > 0 &&
                    std::string_view(owner.data()).ends_with(fmt::format(" on host {}", host.data()));
  return ours && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
}

JournalLock::JournalLock(JournalLock&& other) noexcept
    : journal_(std::move(other.journal_)), fd_(std::exchange(other.fd_, -1)) {}

JournalLock::~JournalLock() {
  if (fd_ >= 0) ::close(fd_);
}

// For people only: on a full disk the lock works without it.
void JournalLock::name_owner() const {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string owner = fmt::format("process {} on host {}", ::getpid(), host.data());
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, owner.data(), owner.size(), 0) < 0) return;
}

struct Journal::State {
  JournalLock lock;
  const std::string& path = lock.journal();
  sqlite3* database = nullptr;
  bool broken = false;
  RunFacts facts;
  int64_t epoch = 0;
  mutable std::mutex mutex;

  explicit State(JournalLock held) : lock(std::move(held)) {}
  ~State() { sqlite3_close(database); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Statement statement(const char* sql) const { return Statement(database, path, sql); }
  absl::Status execute(const char* sql, const std::string& doing) const;
  absl::StatusOr<int64_t> number_of(const char* sql) const;
  absl::Status connect(bool create);
  absl::Status make_durable();
  absl::Status make_tables();
  absl::Status read_run();
  absl::Status write(Statement& statement, const std::string& doing);
  absl::Status change_state(int64_t transaction, TransactionState from, TransactionState to);
  absl::StatusOr<std::optional<Transaction>> find_transaction(const char* condition, int64_t value) const;
  absl::StatusOr<JobRecord> job(int job) const;
};

absl::Status Journal::State::execute(const char* sql, const std::string& doing) const {
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return absl::OkStatus();
  return sqlite_error(database, path, doing);
}

absl::StatusOr<int64_t> Journal::State::number_of(const char* sql) const {
  int64_t number = 0;
  Statement query = statement(sql);
  SCALAI_RETURN_IF_ERROR(query.run("read", [&](const Statement& row) { number = row.number(0); }));
  return number;
}

// Exclusive before the first access: then the write-ahead log needs no shared memory, and other programs are kept out.
absl::Status Journal::State::connect(bool create) {
  // SQLite would give it the umask's mode; its log gets the mode of the journal.
  if (create) FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
  if (sqlite3_open_v2(path.c_str(), &database, flags, nullptr) != SQLITE_OK) {
    SCALAI_CHECK(database != nullptr, "out of memory");
    return sqlite_error(database, path, "open");
  }
  return execute("PRAGMA locking_mode = EXCLUSIVE", "lock");
}

absl::Status Journal::State::make_durable() {
  std::string mode;
  Statement log = statement("PRAGMA journal_mode = WAL");
  SCALAI_RETURN_IF_ERROR(log.run("start its log", [&](const Statement& row) { mode = row.text(0); }));
  if (mode != "wal") return failed(fmt::format("{}: no write-ahead log here (journal mode {})", path, mode));
  return execute("PRAGMA synchronous = FULL", "set durability");
}

absl::Status Journal::State::make_tables() {
  SCALAI_RETURN_IF_ERROR(execute("BEGIN IMMEDIATE", "write"));
  absl::Status status = execute(kSchema, "make tables");
  if (status.ok()) {
    Statement insert = statement("INSERT INTO run VALUES(1, ?, ?, ?, ?, 1)");
    insert.bind(facts.scenario_text).bind(facts.scenario_digest).bind(facts.strategy).bind(facts.run_id);
    status = insert.run("write the run's facts");
  }
  const std::string marks =
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, kSchemaVersion);
  if (status.ok()) status = execute(marks.c_str(), "mark the file");
  if (status.ok()) status = execute("COMMIT", "write");
  if (status.ok()) return sync_folder_of(path);
  sqlite3_exec(database, "ROLLBACK", nullptr, nullptr, nullptr);  // the first error is what counts
  return status;
}

absl::Status Journal::State::read_run() {
  SCALAI_ASSIGN_OR_RETURN(const int64_t application, number_of("PRAGMA application_id"));
  SCALAI_ASSIGN_OR_RETURN(const int64_t tables, number_of("SELECT count(*) FROM sqlite_schema"));
  if (application == 0 && tables == 0) {
    return missing(fmt::format("{}: making this journal was never finished; start the run anew", path));
  }
  if (application != kApplicationId) return invalid(fmt::format("{}: a database, but not a journal", path));
  SCALAI_ASSIGN_OR_RETURN(const int64_t version, number_of("PRAGMA user_version"));
  if (version != kSchemaVersion) {
    return invalid(fmt::format("{}: a journal of schema version {}; this program reads version {}", path, version,
                               kSchemaVersion));
  }
  std::string verdict;
  Statement check = statement("PRAGMA quick_check(1)");
  SCALAI_RETURN_IF_ERROR(check.run("check", [&](const Statement& row) { verdict = row.text(0); }));
  if (verdict != "ok") return invalid(fmt::format("{}: the journal is damaged: {}", path, verdict));
  Statement run = statement("SELECT scenario, scenario_digest, strategy, run_id, controller_epoch FROM run");
  SCALAI_RETURN_IF_ERROR(run.run("read", [&](const Statement& row) {
    facts = {row.text(0), row.text(1), row.text(2), row.text(3)};
    epoch = row.number(4);
  }));
  if (epoch > 0 && epoch < std::numeric_limits<int64_t>::max()) return absl::OkStatus();
  return invalid(fmt::format("{}: the journal is damaged: no run in it", path));
}

absl::Status Journal::State::write(Statement& statement, const std::string& doing) {
  if (broken) return failed(fmt::format("{}: an earlier write failed; reopen the journal to see its content", path));
  absl::Status status = statement.run(doing);
  // A flush that failed: the bytes may be there or not.
  broken = status.code() == absl::StatusCode::kAborted;
  return status;
}

absl::StatusOr<std::optional<Transaction>> Journal::State::find_transaction(const char* condition,
                                                                            int64_t value) const {
  std::optional<Transaction> found;
  const std::string sql = fmt::format(
      "SELECT id, job, epoch, plan_digest, state FROM transactions WHERE {} ORDER BY id DESC LIMIT 1", condition);
  Statement query = statement(sql.c_str());
  query.bind(value);
  SCALAI_RETURN_IF_ERROR(query.run("read", [&](const Statement& row) { found = transaction_of(row); }));
  return found;
}

absl::Status Journal::State::change_state(int64_t transaction, TransactionState from, TransactionState to) {
  const std::lock_guard guard(mutex);
  const char* before = kStateNames[static_cast<size_t>(from)];
  const char* after = kStateNames[static_cast<size_t>(to)];
  Statement update = statement("UPDATE transactions SET state = ? WHERE id = ? AND state = ?");
  update.bind(after).bind(transaction).bind(before);
  SCALAI_RETURN_IF_ERROR(write(update, fmt::format("record that transaction {} is {}", transaction, after)));
  if (sqlite3_changes(database) == 1) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(const std::optional<Transaction> found, find_transaction("id = ?", transaction));
  if (!found) return precondition(fmt::format("{}: there is no transaction {}", path, transaction));
  return precondition(fmt::format("{}: transaction {} is {}, not {}: it cannot become {}", path, transaction,
                                  kStateNames[static_cast<size_t>(found->state)], before, after));
}

absl::StatusOr<JobRecord> Journal::State::job(int job) const {
  JobRecord record;
  record.job = job;
  SCALAI_ASSIGN_OR_RETURN(record.committed, find_transaction("job = ? AND state IN ('committed', 'freed')", job));
  SCALAI_ASSIGN_OR_RETURN(record.prepared, find_transaction("job = ? AND state = 'prepared'", job));
  return record;
}

Journal::Journal(std::unique_ptr<State> state) : state_(std::move(state)) {}
Journal::~Journal() = default;
Journal::Journal(Journal&&) noexcept = default;

absl::StatusOr<Journal> Journal::begin(std::unique_ptr<State> state, const RunFacts& facts) {
  state->facts = facts;
  state->epoch = 1;
  SCALAI_RETURN_IF_ERROR(state->make_durable());
  SCALAI_RETURN_IF_ERROR(state->make_tables());
  return Journal(std::move(state));
}

absl::StatusOr<Journal> Journal::create(const std::string& path, const RunFacts& facts) {
  SCALAI_ASSIGN_OR_RETURN(JournalLock lock, JournalLock::take(path));
  auto state = std::make_unique<State>(std::move(lock));
  SCALAI_RETURN_IF_ERROR(state->connect(/*create=*/true));
  const absl::Status there = state->read_run();
  if (there.ok() || there.code() == absl::StatusCode::kInvalidArgument) {
    return absl::AlreadyExistsError(
        fmt::format("{}: is there already; continue its run, or choose another name", path));
  }
  if (there.code() != absl::StatusCode::kNotFound) return there;
  return begin(std::move(state), facts);
}

absl::StatusOr<Journal> Journal::replace(JournalLock lock, const RunFacts& facts) {
  auto state = std::make_unique<State>(std::move(lock));
  // In this order on disk, too: the file without its log is an older journal, and an older log would be read into the
  // new file.
  for (const char* suffix : {"", "-wal", "-shm"}) {
    const std::string file = state->path + suffix;
    if (::unlink(file.c_str()) == 0) {
      SCALAI_RETURN_IF_ERROR(sync_folder_of(file));
    } else if (errno != ENOENT) {
      return failed(fmt::format("{}: cannot remove: {}", file, std::strerror(errno)));
    }
  }
  SCALAI_RETURN_IF_ERROR(state->connect(/*create=*/true));
  return begin(std::move(state), facts);
}

absl::StatusOr<Journal> Journal::open(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return missing(fmt::format("{}: {}", path, std::strerror(errno)));
  SCALAI_ASSIGN_OR_RETURN(JournalLock lock, JournalLock::take(path));
  auto state = std::make_unique<State>(std::move(lock));
  SCALAI_RETURN_IF_ERROR(state->connect(/*create=*/false));
  SCALAI_RETURN_IF_ERROR(state->read_run());
  SCALAI_RETURN_IF_ERROR(state->make_durable());
  Statement raise = state->statement("UPDATE run SET controller_epoch = ?");
  raise.bind(++state->epoch);
  SCALAI_RETURN_IF_ERROR(state->write(raise, "raise the controller epoch"));
  return Journal(std::move(state));
}

const RunFacts& Journal::run() const { return state_->facts; }
int64_t Journal::controller_epoch() const { return state_->epoch; }

absl::StatusOr<int64_t> Journal::append_event(std::string_view line) {
  const std::lock_guard guard(state_->mutex);
  Statement insert = state_->statement("INSERT INTO events(line) VALUES(?)");
  insert.bind(line);
  SCALAI_RETURN_IF_ERROR(state_->write(insert, "append an event"));
  return sqlite3_last_insert_rowid(state_->database);
}

absl::StatusOr<std::vector<std::string>> Journal::events() const {
  const std::lock_guard guard(state_->mutex);
  std::vector<std::string> lines;
  Statement query = state_->statement("SELECT line FROM events ORDER BY number");
  SCALAI_RETURN_IF_ERROR(query.run("read", [&](const Statement& row) { lines.push_back(row.text(0)); }));
  return lines;
}

absl::StatusOr<int64_t> Journal::begin_transaction(const TransactionStart& start) {
  const std::lock_guard guard(state_->mutex);
  Statement insert = state_->statement(
      "INSERT INTO transactions(job, epoch, plan_digest, state) SELECT ?1, ?2, ?3, 'prepared' "
      "WHERE NOT EXISTS(SELECT 1 FROM transactions WHERE job = ?1 AND state = 'prepared')");
  insert.bind(start.job).bind(start.epoch).bind(start.plan_digest);
  SCALAI_RETURN_IF_ERROR(state_->write(insert, "begin a transaction"));
  if (sqlite3_changes(state_->database) == 1) return sqlite3_last_insert_rowid(state_->database);
  return precondition(fmt::format("{}: job {} already has a prepared transaction", state_->path, start.job));
}

absl::Status Journal::record_round(const Round& round) {
  const std::lock_guard guard(state_->mutex);
  Statement insert = state_->statement(
      "INSERT INTO rounds SELECT ?1, ?2, ?3 WHERE EXISTS(SELECT 1 FROM transactions WHERE id = ?1 AND state = "
      "'prepared') "
      "AND NOT EXISTS(SELECT 1 FROM rounds WHERE transaction_id = ?1 AND round = ?2)");
  insert.bind(round.transaction).bind(round.round).bind(round.freed);
  SCALAI_RETURN_IF_ERROR(state_->write(insert, "record a round"));
  if (sqlite3_changes(state_->database) == 1) return absl::OkStatus();
  return precondition(fmt::format("{}: transaction {} is not prepared, or round {} is recorded already", state_->path,
                                  round.transaction, round.round));
}

absl::Status Journal::commit(int64_t transaction) {
  return state_->change_state(transaction, TransactionState::kPrepared, TransactionState::kCommitted);
}
absl::Status Journal::abort(int64_t transaction) {
  return state_->change_state(transaction, TransactionState::kPrepared, TransactionState::kAborted);
}
absl::Status Journal::freed(int64_t transaction) {
  return state_->change_state(transaction, TransactionState::kCommitted, TransactionState::kFreed);
}

absl::StatusOr<std::vector<Transaction>> Journal::transactions() const {
  const std::lock_guard guard(state_->mutex);
  std::vector<Transaction> all;
  Statement query = state_->statement("SELECT id, job, epoch, plan_digest, state FROM transactions ORDER BY id");
  SCALAI_RETURN_IF_ERROR(query.run("read", [&](const Statement& row) { all.push_back(transaction_of(row)); }));
  return all;
}

absl::StatusOr<std::vector<Round>> Journal::rounds_of(int64_t transaction) const {
  const std::lock_guard guard(state_->mutex);
  std::vector<Round> rounds;
  Statement query = state_->statement("SELECT round, freed FROM rounds WHERE transaction_id = ? ORDER BY round");
  query.bind(transaction);
  SCALAI_RETURN_IF_ERROR(query.run("read", [&](const Statement& row) {
    rounds.push_back({transaction, static_cast<int>(row.number(0)), row.text(1)});
  }));
  return rounds;
}

absl::StatusOr<std::vector<JobRecord>> Journal::jobs() const {
  const std::lock_guard guard(state_->mutex);
  std::vector<int> numbers;
  Statement query = state_->statement("SELECT DISTINCT job FROM transactions ORDER BY job");
  SCALAI_RETURN_IF_ERROR(
      query.run("read", [&](const Statement& row) { numbers.push_back(static_cast<int>(row.number(0))); }));
  std::vector<JobRecord> records;
  for (const int number : numbers) {
    SCALAI_ASSIGN_OR_RETURN(records.emplace_back(), state_->job(number));
  }
  return records;
}

absl::StatusOr<JobRecord> Journal::job(int job) const {
  const std::lock_guard guard(state_->mutex);
  return state_->job(job);
}

}  // namespace scalai::executor::journal
