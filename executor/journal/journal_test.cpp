#include "executor/journal/journal.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/store/safetensors/testing/small_disk.h"

namespace scalai::executor::journal {
namespace {

using store::on_small_disk;
using store::SmallDisk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const RunFacts kFacts = {"jobs { name: \"a\" }\n", "digest", "reshard", "run-1"};

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    std::string pattern = testing::TempDir() + "scalai-journal-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~JournalTest() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name = "journal") const { return folder_ + "/" + name; }
  Journal create() const { return take(Journal::create(path(), kFacts)); }
  Journal open() const { return take(Journal::open(path())); }
  static Journal take(absl::StatusOr<Journal> journal) {
    SCALAI_CHECK(journal.ok(), message_of(journal.status()));
    return *std::move(journal);
  }
  // Overwrites a big-endian number in the header of a SQLite file.
  void set_header(int64_t offset, char last_byte) const {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset + 3);
    file.put(last_byte);
  }
  std::string folder_;
};

TEST_F(JournalTest, KeepsTheRunAndCountsControllers) {
  {
    const Journal journal = create();
    EXPECT_EQ(journal.run(), kFacts);
    EXPECT_EQ(journal.controller_epoch(), 1);
  }
  EXPECT_EQ(open().controller_epoch(), 2);
  const Journal third = open();
  EXPECT_EQ(third.controller_epoch(), 3);
  EXPECT_EQ(third.run(), kFacts);
}

TEST_F(JournalTest, KeepsEventsInOrder) {
  {
    Journal journal = create();
    EXPECT_EQ(*journal.append_event("first"), 1);
    EXPECT_EQ(*journal.append_event(""), 2);
    EXPECT_EQ(*journal.append_event(std::string_view("\xC3\xA9\0x", 4)), 3);
  }
  Journal journal = open();
  EXPECT_EQ(*journal.append_event("last"), 4);
  EXPECT_THAT(*journal.events(), ElementsAre("first", "", std::string("\xC3\xA9\0x", 4), "last"));
}

TEST_F(JournalTest, TransactionsGoOneWay) {
  Journal journal = create();
  EXPECT_EQ(*journal.begin_transaction({.job = 0, .epoch = 1, .plan_digest = "p1"}), 1);
  EXPECT_EQ(*journal.begin_transaction({.job = 1, .epoch = 1, .plan_digest = "p2"}), 2);
  const absl::Status second = journal.begin_transaction({.job = 0, .epoch = 2, .plan_digest = "p3"}).status();
  EXPECT_EQ(message_of(second), path() + ": job 0 already has a prepared transaction");
  EXPECT_EQ(journal.freed(1).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(journal.commit(1).ok());
  EXPECT_EQ(message_of(journal.commit(1)),
            path() + ": transaction 1 is committed, not prepared: it cannot become committed");
  EXPECT_EQ(journal.abort(1).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(journal.abort(2).ok());
  EXPECT_EQ(message_of(journal.commit(2)),
            path() + ": transaction 2 is aborted, not prepared: it cannot become committed");
  EXPECT_EQ(message_of(journal.commit(9)), path() + ": there is no transaction 9");
  ASSERT_TRUE(journal.freed(1).ok());
  EXPECT_EQ(journal.freed(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(*journal.begin_transaction({.job = 0, .epoch = 2, .plan_digest = "p3"}), 3);
  EXPECT_THAT(*journal.transactions(), ElementsAre(Transaction{1, 0, 1, "p1", TransactionState::kFreed},
                                                   Transaction{2, 1, 1, "p2", TransactionState::kAborted},
                                                   Transaction{3, 0, 2, "p3", TransactionState::kPrepared}));
}

TEST_F(JournalTest, RoundsBelongToAPreparedTransaction) {
  Journal journal = create();
  ASSERT_EQ(*journal.begin_transaction({.job = 0, .epoch = 1, .plan_digest = "p"}), 1);
  ASSERT_TRUE(journal.record_round({1, 2, "g0 w [0:4]"}).ok());
  ASSERT_TRUE(journal.record_round({1, 1, ""}).ok());
  EXPECT_EQ(message_of(journal.record_round({1, 2, "other"})),
            path() + ": transaction 1 is not prepared, or round 2 is recorded already");
  EXPECT_EQ(journal.record_round({2, 1, ""}).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(journal.abort(1).ok());
  EXPECT_EQ(journal.record_round({1, 3, ""}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(*journal.rounds_of(1), ElementsAre(Round{1, 1, ""}, Round{1, 2, "g0 w [0:4]"}));
  EXPECT_TRUE(journal.rounds_of(2)->empty());
}

TEST_F(JournalTest, TellsWhereEachJobStands) {
  {
    Journal journal = create();
    EXPECT_TRUE(journal.jobs()->empty());
    EXPECT_EQ(*journal.job(7), JobRecord{.job = 7});
    for (int64_t epoch = 1; epoch <= 3; ++epoch) {
      const int64_t id = *journal.begin_transaction({.job = 0, .epoch = epoch, .plan_digest = "p"});
      EXPECT_TRUE(epoch == 3 || journal.commit(id).ok());
      EXPECT_TRUE(epoch != 1 || journal.freed(id).ok());
    }
    EXPECT_TRUE(journal.abort(*journal.begin_transaction({.job = 2, .epoch = 1, .plan_digest = "q"})).ok());
    EXPECT_TRUE(journal.begin_transaction({.job = 4, .epoch = 6, .plan_digest = "r"}).ok());
  }
  const Journal journal = open();
  EXPECT_THAT(*journal.jobs(),
              ElementsAre(JobRecord{0, Transaction{2, 0, 2, "p", TransactionState::kCommitted},
                                    Transaction{3, 0, 3, "p", TransactionState::kPrepared}},
                          JobRecord{2, std::nullopt, std::nullopt},
                          JobRecord{4, std::nullopt, Transaction{5, 4, 6, "r", TransactionState::kPrepared}}));
  EXPECT_EQ(*journal.job(4), journal.jobs()->at(2));
}

TEST_F(JournalTest, ThreadsMayShareIt) {
  Journal journal = create();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&journal, i] {
      for (int k = 0; k < 10; ++k) EXPECT_TRUE(journal.append_event(fmt::format("{} {}", i, k)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(journal.events()->size(), 40u);
}

TEST_F(JournalTest, OneControllerAtATime) {
  const Journal journal = create();
  // From this process and from another one: both are told who has it.
  const absl::Status here = Journal::open(path()).status();
  EXPECT_EQ(here.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message_of(here), HasSubstr(fmt::format("{}: process {} on host", path(), ::getpid())));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(Journal::open(path()).status().code() == absl::StatusCode::kUnavailable ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Journal::create(path(), kFacts).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(JournalTest, OtherProgramsAreKeptOutToo) {
  const Journal journal = create();
  // Without our lock file, as a program that knows nothing of it.
  std::filesystem::create_hard_link(path(), path("same"));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(Journal::open(path("same")).status().code() == absl::StatusCode::kUnavailable ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(JournalTest, CreateMakesOnlyNewOnes) {
  create();
  EXPECT_EQ(Journal::create(path(), kFacts).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(open().controller_epoch(), 2);
  ASSERT_TRUE(write_file(path("text"), std::string(5000, 'x')).ok());
  EXPECT_EQ(Journal::create(path("text"), kFacts).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*read_file(path("text")), std::string(5000, 'x'));
  EXPECT_EQ(Journal::create(path("no/such/journal"), kFacts).status().code(), absl::StatusCode::kNotFound);
  // What a kill may leave before the tables are there.
  ASSERT_TRUE(write_file(path("begun"), "").ok());
  EXPECT_THAT(message_of(Journal::open(path("begun")).status()), HasSubstr("was never finished"));
  EXPECT_EQ(take(Journal::create(path("begun"), kFacts)).controller_epoch(), 1);
}

TEST_F(JournalTest, ReplaceBeginsAnew) {
  ASSERT_TRUE(create().append_event("old").ok());
  RunFacts facts = kFacts;
  facts.run_id = "run-2";
  {
    absl::StatusOr<JournalLock> lock = JournalLock::take(path());
    ASSERT_TRUE(lock.ok()) << lock.status();
    errno = EPERM;  // of an earlier call, which means nothing
    const Journal fresh = take(Journal::replace(*std::move(lock), facts));
    EXPECT_EQ(fresh.controller_epoch(), 1);
    EXPECT_EQ(fresh.run(), facts);
    EXPECT_TRUE(fresh.events()->empty());
  }
  EXPECT_EQ(open().run(), facts);
}

TEST_F(JournalTest, ALockOfAnEndedProcessIsAbandoned) {
  EXPECT_FALSE(JournalLock::is_abandoned(path())) << "nobody was there";
  {
    absl::StatusOr<JournalLock> lock = JournalLock::take(path());
    ASSERT_TRUE(lock.ok()) << lock.status();
    EXPECT_FALSE(JournalLock::is_abandoned(path()));
  }
  EXPECT_TRUE(JournalLock::is_abandoned(path()));
  EXPECT_TRUE(JournalLock::take(path()).ok()) << "asking takes nothing";
  std::ofstream(path() + ".lock") << "process 1 on host of another building";
  EXPECT_FALSE(JournalLock::is_abandoned(path()));
}

TEST_F(JournalTest, AFolderIsNoJournal) {
  ASSERT_TRUE(std::filesystem::create_directory(path("folder")));
  EXPECT_EQ(Journal::open(path("folder")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Journal::create(path("folder"), kFacts).status().code(), absl::StatusCode::kNotFound);
  absl::StatusOr<JournalLock> lock = JournalLock::take(path("folder"));
  ASSERT_TRUE(lock.ok()) << lock.status();
  const absl::Status status = Journal::replace(*std::move(lock), kFacts).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_THAT(message_of(status), HasSubstr(path("folder") + ": cannot remove: "));
}

TEST_F(JournalTest, OpenRefusesWhatIsNoJournal) {
  EXPECT_EQ(message_of(Journal::open(path("absent")).status()), path("absent") + ": No such file or directory");
  EXPECT_FALSE(std::filesystem::exists(path("absent.lock")));
  ASSERT_TRUE(write_file(path("text"), std::string(5000, 'x')).ok());
  EXPECT_EQ(Journal::open(path("text")).status().code(), absl::StatusCode::kInvalidArgument);
  create();
  set_header(68, 1);  // SQLite's application id
  EXPECT_EQ(message_of(Journal::open(path()).status()), path() + ": a database, but not a journal");
}

TEST_F(JournalTest, OpenNamesBothSchemaVersions) {
  create();
  set_header(60, 9);  // SQLite's user version
  EXPECT_EQ(message_of(Journal::open(path()).status()),
            path() + ": a journal of schema version 9; this program reads version 1");
  set_header(60, 1);
  EXPECT_EQ(open().controller_epoch(), 2);
}

TEST_F(JournalTest, OpenRefusesADamagedJournal) {
  {
    Journal journal = create();
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(journal.append_event(std::string(200, 'e')).ok());
  }
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) / 2);
  const absl::Status status = Journal::open(path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

// The next controller's would be no number.
TEST_F(JournalTest, OpenRefusesAnEpochThatHasNoNext) {
  { (void)create(); }
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &database), SQLITE_OK);
  const char* last = "UPDATE run SET controller_epoch = 9223372036854775807";
  EXPECT_EQ(sqlite3_exec(database, last, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  EXPECT_EQ(message_of(Journal::open(path()).status()), path() + ": the journal is damaged: no run in it");
}

TEST_F(JournalTest, OpenRefusesAJournalWithoutARun) {
  { (void)create(); }
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, "DELETE FROM run", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  EXPECT_EQ(message_of(Journal::open(path()).status()), path() + ": the journal is damaged: no run in it");
}

// Fills the disk up to its last byte.
void fill(const std::string& file) {
  std::ofstream out(file, std::ios::binary);
  while (out.write("0123456789abcdef", 16).flush()) {
  }
}

TEST_F(JournalTest, AFullDiskCommitsNothing) {
  const SmallDisk result = on_small_disk(512 << 10, [](const std::string& disk) {
    {
      Journal journal = take(Journal::create(disk + "/journal", kFacts));
      EXPECT_EQ(*journal.begin_transaction({.job = 0, .epoch = 1, .plan_digest = "p"}), 1);
      fill(disk + "/filler");
      const absl::Status status = journal.commit(1);
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_EQ(journal.append_event("e").status().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(journal.begin_transaction({.job = 1, .epoch = 1, .plan_digest = "q"}).status().code(),
                absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(journal.record_round({1, 1, ""}).code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(journal.transactions()->front().state, TransactionState::kPrepared);
      EXPECT_TRUE(journal.events()->empty());
    }
    EXPECT_EQ(Journal::open(disk + "/journal").status().code(), absl::StatusCode::kResourceExhausted);
    std::filesystem::remove(disk + "/filler");
    Journal journal = take(Journal::open(disk + "/journal"));
    EXPECT_EQ(journal.transactions()->front().state, TransactionState::kPrepared);
    EXPECT_TRUE(journal.commit(1).ok());
  });
  if (result == SmallDisk::kUnavailable) GTEST_SKIP() << "this user may not mount a small tmpfs here";
  EXPECT_EQ(result, SmallDisk::kPassed);
}

TEST_F(JournalTest, GoesOnWhenThereIsRoomAgain) {
  const SmallDisk result = on_small_disk(512 << 10, [](const std::string& disk) {
    Journal journal = take(Journal::create(disk + "/journal", kFacts));
    EXPECT_EQ(*journal.append_event("before"), 1);
    fill(disk + "/filler");
    EXPECT_EQ(journal.append_event("full").status().code(), absl::StatusCode::kResourceExhausted);
    std::filesystem::remove(disk + "/filler");
    EXPECT_EQ(*journal.append_event("after"), 2);
    EXPECT_THAT(*journal.events(), ElementsAre("before", "after"));
  });
  if (result == SmallDisk::kUnavailable) GTEST_SKIP() << "this user may not mount a small tmpfs here";
  EXPECT_EQ(result, SmallDisk::kPassed);
}

}  // namespace
}  // namespace scalai::executor::journal
