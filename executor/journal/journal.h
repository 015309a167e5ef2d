#pragma once
// The controller's journal: the facts of a run, every control event, and every committed change, in one SQLite file.
// After the death of a controller the next one opens the journal, replays the events and continues.
//
// Every writing function is one SQLite transaction, on disk when it returns OK. After a kill or a loss of power the
// journal is readable and holds all calls that returned, in order, and at most the one under way. (Write-ahead log with
// synchronous=FULL: a commit is one append and one flush. NORMAL would flush later; a rollback journal needs three
// flushes and, to survive a loss of power right after, EXTRA.)
//
// One process at a time: the journal is locked while open. Thread-safe. The journal returns copies, except run().
//
// Errors of writing functions. ResourceExhausted: the disk is full, the call wrote nothing, and a later call may
// succeed. Aborted: the disk failed, and it is unknown whether the call was written; this object refuses all further
// writes, and only opening the journal again tells. FailedPrecondition: not allowed in the journal's state.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::executor::journal {

// Facts of a run; never change.
struct RunFacts {
  std::string scenario_text;
  std::string scenario_digest;
  std::string strategy;
  std::string run_id;
  friend bool operator==(const RunFacts&, const RunFacts&) = default;
};

// A reconfiguration of a job: prepared → committed → freed, or prepared → aborted. Before the commit the old epoch
// counts, afterwards the new one. Freed: no worker holds the old epoch any more.
enum class TransactionState : uint8_t { kPrepared, kCommitted, kFreed, kAborted };

struct TransactionStart {
  int job = 0;        // index in the scenario
  int64_t epoch = 0;  // the new epoch
  std::string plan_digest;
};

struct Transaction {
  int64_t id = 0;  // from 1
  int job = 0;
  int64_t epoch = 0;
  std::string plan_digest;
  TransactionState state = TransactionState::kPrepared;
  friend bool operator==(const Transaction&, const Transaction&) = default;
};

// A round of the transaction under way, with the parts of the old epoch that it frees before the commit (because of a
// memory cap). Written before anything is freed.
struct Round {
  int64_t transaction = 0;
  int round = 0;      // from 1
  std::string freed;  // opaque; empty: frees nothing
  friend bool operator==(const Round&, const Round&) = default;
};

// Recorded state of a job.
struct JobRecord {
  int job = 0;
  std::optional<Transaction> committed;  // the last committed one, freed or not
  std::optional<Transaction> prepared;   // the one under way
  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

// The right to write a journal: one process has it, until this object goes or a journal has taken it over. A lock on
// `journal`.lock, with the owner's process id and host in it. The kernel lets go of it when the process dies; the file
// is never removed, so that two processes cannot lock two files of one name.
class JournalLock {
 public:
  // Unavailable: another process has it; the message names that. NotFound, ResourceExhausted: no such file can be made.
  static absl::StatusOr<JournalLock> take(const std::string& journal);
  // Whether a process of this host had it and has ended. False where another host may have it: locks need not reach
  // over a network file system.
  static bool is_abandoned(const std::string& journal);
  ~JournalLock();
  JournalLock(JournalLock&& other) noexcept;
  JournalLock& operator=(JournalLock&&) = delete;
  const std::string& journal() const { return journal_; }

 private:
  JournalLock(std::string journal, int fd) : journal_(std::move(journal)), fd_(fd) {}
  void name_owner() const;
  std::string journal_;
  int fd_;
};

class Journal {
 public:
  // Creates a journal in an existing folder; its controller epoch is 1. An incomplete file left by a kill is reused.
  // AlreadyExists: a journal or another file is there. Unavailable: locked. NotFound: cannot be created.
  static absl::StatusOr<Journal> create(const std::string& path, const RunFacts& facts);

  // Removes the journal of an earlier run and creates another in its place. Errors as of create().
  static absl::StatusOr<Journal> replace(JournalLock lock, const RunFacts& facts);

  // Opens an existing journal to continue the run; increments the controller epoch. NotFound: no file, or no complete
  // journal in it. Unavailable: another process has it open (the message names its id and host if known).
  // InvalidArgument: not a journal, damaged, or of another schema version (the message names both).
  static absl::StatusOr<Journal> open(const std::string& path);

  ~Journal();
  Journal(Journal&&) noexcept;
  Journal& operator=(Journal&&) = delete;

  // Valid as long as the journal.
  const RunFacts& run() const;
  // Number of times the journal was opened. Identifies messages to and from earlier controllers.
  int64_t controller_epoch() const;

  // Appends one line of text; call it before acting on the event. Returns the event's number, from 1, without gaps.
  absl::StatusOr<int64_t> append_event(std::string_view line);
  // All events, in order.
  absl::StatusOr<std::vector<std::string>> events() const;

  // Starts a transaction; returns its id. FailedPrecondition: the job has a prepared transaction.
  absl::StatusOr<int64_t> begin_transaction(const TransactionStart& start);
  // Records a round. FailedPrecondition: the transaction is not prepared, or the round has a record.
  absl::Status record_round(const Round& round);
  absl::Status commit(int64_t transaction);                                 // prepared → committed: the commit record
  absl::Status abort(int64_t transaction);                                  // prepared → aborted
  absl::Status freed(int64_t transaction);                                  // committed → freed
  absl::StatusOr<std::vector<Transaction>> transactions() const;            // all, by id
  absl::StatusOr<std::vector<Round>> rounds_of(int64_t transaction) const;  // by round

  // All jobs with a record, by index.
  absl::StatusOr<std::vector<JobRecord>> jobs() const;
  // One job; only its index is set if it has no record.
  absl::StatusOr<JobRecord> job(int job) const;

 private:
  struct State;
  explicit Journal(std::unique_ptr<State> state);
  static absl::StatusOr<Journal> begin(std::unique_ptr<State> state, const RunFacts& facts);
  std::unique_ptr<State> state_;
};

}  // namespace scalai::executor::journal
