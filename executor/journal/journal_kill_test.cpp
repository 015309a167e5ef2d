// A controller that is killed at random points: what it was told is written is there, in order, and at most the one
// call under way besides.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "executor/journal/journal.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::executor::journal {
namespace {

constexpr int kCalls = 6;  // of a transaction, see call()

// What a journal holds.
struct Contents {
  std::vector<std::string> events;
  std::vector<Transaction> transactions;
  std::vector<std::vector<Round>> rounds;
  friend bool operator==(const Contents&, const Contents&) = default;
};

Contents read(const Journal& journal) {
  Contents contents{*journal.events(), *journal.transactions(), {}};
  for (const Transaction& transaction : contents.transactions) {
    contents.rounds.push_back(*journal.rounds_of(transaction.id));
  }
  return contents;
}

// The n-th call of the controller, from 0: transactions one after the other, every third of them aborted.
bool is_aborted(int64_t transaction) { return transaction % 3 == 0; }

absl::Status call(Journal& journal, int64_t n) {
  const int64_t id = n / kCalls + 1;
  switch (n % kCalls) {
    case 0: return journal.append_event(fmt::format("event {}", n)).status();
    case 1: return journal.begin_transaction({.job = 0, .epoch = id, .plan_digest = "p"}).status();
    case 2: return journal.record_round({id, 1, std::string(3000, 'f')});  // a page of its own
    case 3: return journal.record_round({id, 2, ""});
    case 4: return is_aborted(id) ? journal.abort(id) : journal.commit(id);
    default: return is_aborted(id) ? journal.append_event("aborted").status() : journal.freed(id);
  }
}

// What the journal holds after the first `calls` of them, without SQLite.
Contents expected(int64_t calls) {
  Contents contents;
  for (int64_t n = 0; n < calls; ++n) {
    const int64_t id = n / kCalls + 1;
    switch (n % kCalls) {
      case 0: contents.events.push_back(fmt::format("event {}", n)); break;
      case 1:
        contents.transactions.push_back({id, 0, id, "p", TransactionState::kPrepared});
        contents.rounds.emplace_back();
        break;
      case 2: contents.rounds.back().push_back({id, 1, std::string(3000, 'f')}); break;
      case 3: contents.rounds.back().push_back({id, 2, ""}); break;
      case 4:
        contents.transactions.back().state = is_aborted(id) ? TransactionState::kAborted : TransactionState::kCommitted;
        break;
      default:
        if (is_aborted(id)) {
          contents.events.push_back("aborted");
        } else {
          contents.transactions.back().state = TransactionState::kFreed;
        }
    }
  }
  return contents;
}

// Runs calls from the `first` on and reports each that returned; ends only by a signal or an error.
[[noreturn]] void controller(const std::string& path, int64_t first, int report) {
  absl::StatusOr<Journal> journal = Journal::open(path);
  if (!journal.ok()) ::_exit(1);
  for (int64_t n = first;; ++n) {
    if (!call(*journal, n).ok() || ::write(report, "x", 1) != 1) ::_exit(2);
  }
}

// Starts a controller and kills it soon after it has reported `reports` calls; gives how many it reported in all.
int64_t run_and_kill(const std::string& path, int64_t first, Random& random) {
  const int64_t reports = random.below(30);
  int ends[2];
  SCALAI_CHECK(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    controller(path, first, ends[1]);
  }
  ::close(ends[1]);
  int64_t seen = 0;
  char byte = 0;
  while (seen < reports && ::read(ends[0], &byte, 1) == 1) ++seen;
  ::usleep(static_cast<useconds_t>(random.below(3000)));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the controller ended by itself with " << status;
  while (::read(ends[0], &byte, 1) == 1) ++seen;
  ::close(ends[0]);
  return seen;
}

TEST(JournalKill, LeavesAPrefixOfTheCalls) {
  std::string folder = testing::TempDir() + "scalai-journal-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/journal";
  ASSERT_TRUE(Journal::create(path, {"scenario", "digest", "reshard", "run"}).ok());
  int64_t done = 0;
  int64_t epoch = 1;
  for (uint64_t seed = 1; seed <= 40 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const int64_t reported = done + run_and_kill(path, done, random);
    absl::StatusOr<Journal> journal = Journal::open(path);
    ASSERT_TRUE(journal.ok()) << journal.status();
    // The controller may have been killed before it had the journal open.
    EXPECT_GE(journal->controller_epoch(), epoch + 1);
    EXPECT_LE(journal->controller_epoch(), epoch + 2);
    epoch = journal->controller_epoch();
    const Contents contents = read(*journal);
    const bool one_more = contents == expected(reported + 1);
    EXPECT_TRUE(one_more || contents == expected(reported)) << reported << " calls had returned";
    done = reported + (one_more ? 1 : 0);
  }
  EXPECT_GT(done, 100);
  std::filesystem::remove_all(folder);
}

// Killed while it is made: either there is a whole journal, or it can be made again.
TEST(JournalKill, WhileItIsMadeLeavesAllOrNothing) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::string folder = testing::TempDir() + "scalai-journal-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    const std::string path = folder + "/journal";
    Random random(seed);
    const pid_t child = ::fork();
    if (child == 0) {
      const absl::StatusOr<Journal> journal = Journal::create(path, {"scenario", "digest", "reshard", "run"});
      ::pause();
    }
    ::usleep(static_cast<useconds_t>(random.below(12'000)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const absl::StatusOr<Journal> opened = Journal::open(path);
    if (opened.ok()) {
      EXPECT_EQ(opened->run().scenario_text, "scenario");
    } else {
      EXPECT_EQ(opened.status().code(), absl::StatusCode::kNotFound) << opened.status();
      EXPECT_TRUE(Journal::create(path, {"again", "digest", "reshard", "run"}).ok());
      EXPECT_EQ(Journal::open(path)->run().scenario_text, "again");
    }
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace scalai::executor::journal
