#pragma once
// The controller's journal: what a run was started with, every control event, and what has been committed, in one SQLite
// file. A controller that died is followed by one that opens the journal, replays the events and goes on.
//
// Every function that writes is one SQLite transaction that is on disk when it returns OK: after a kill or a loss of
// power the journal is readable and holds all calls that returned, in order, and at most one more, the one under way.
// (Write-ahead log with synchronous=FULL: a commit is one append and one flush. With NORMAL it would be flushed later; a
// rollback journal needs three flushes and, to survive a loss of power right after, EXTRA.)
//
// One process at a time: the journal is locked while it is open. Safe from several threads.
//
// Errors of everything that writes: ResourceExhausted: the disk is full, and nothing of the call was written; a later
// call may succeed. Aborted: the disk failed, and whether the call was written is unknown: this object refuses all
// further writes, and only opening the journal anew tells. FailedPrecondition: not what the journal's state allows.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::executor {

// What a run was started with; never changes.
struct RunFacts {
  std::string scenario_text;
  std::string scenario_digest;
  std::string strategy;
  std::string run_id;
  friend bool operator==(const RunFacts&, const RunFacts&) = default;
};

// A reconfiguration of a job: prepared → committed → freed, or prepared → aborted. Until it is committed the old epoch
// stands, afterwards the new one; freed: nobody holds the old one any more.
enum class TransactionState : uint8_t { kPrepared, kCommitted, kFreed, kAborted };

struct TransactionStart {
  int job = 0;        // index in the scenario
  int64_t epoch = 0;  // that it makes
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

// A round of a transaction that is under way, with what it frees of the old epoch before the commit (a memory cap forces
// that). Written before anything is freed.
struct Round {
  int64_t transaction = 0;
  int round = 0;      // from 1
  std::string freed;  // opaque; empty: nothing
  friend bool operator==(const Round&, const Round&) = default;
};

struct CheckpointRecord {
  int job = 0;
  int64_t step = 0;
  std::string folder;
  friend bool operator==(const CheckpointRecord&, const CheckpointRecord&) = default;
};

// A job's state of a step, copied to other hosts' memory under this version.
struct CopyRecord {
  int job = 0;
  int64_t step = 0;
  int64_t version = 0;
  friend bool operator==(const CopyRecord&, const CopyRecord&) = default;
};

// Where a job stands.
struct JobRecord {
  int job = 0;
  std::optional<Transaction> committed;        // the last that was committed, freed or not
  std::optional<Transaction> prepared;         // the one under way
  std::optional<CheckpointRecord> checkpoint;  // recorded last
  std::optional<CopyRecord> copy;              // recorded last
  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

class Journal {
 public:
  // A new journal, whose folder exists; its controller epoch is 1. A file that a kill left behind before the journal was
  // whole is used. AlreadyExists: there is a journal or another file; Unavailable: locked; NotFound: cannot be made.
  static absl::StatusOr<Journal> create(const std::string& path, const RunFacts& facts);

  // An existing journal, to go on with; raises the controller epoch. NotFound: no file or no whole journal in it;
  // Unavailable: another process has it open (its id and host are named when known); InvalidArgument: not a journal,
  // damaged, or of another schema version (both are named).
  static absl::StatusOr<Journal> open(const std::string& path);

  ~Journal();
  Journal(Journal&&) noexcept;
  Journal& operator=(Journal&&) = delete;

  const RunFacts& run() const;
  // How often the journal was opened: what a message from an earlier controller is known by.
  int64_t controller_epoch() const;

  // Appends one line of text; to be called before the event is acted on. Gives its number, from 1, without gaps.
  absl::StatusOr<int64_t> append_event(std::string_view line);
  // All of them, in order.
  absl::StatusOr<std::vector<std::string>> events() const;

  // Starts a transaction and gives its id. FailedPrecondition: the job has one that is prepared.
  absl::StatusOr<int64_t> begin_transaction(const TransactionStart& start);
  // The transaction is prepared (else FailedPrecondition), the round has no record.
  absl::Status record_round(const Round& round);
  absl::Status commit(int64_t transaction);                                 // prepared → committed: the commit record
  absl::Status abort(int64_t transaction);                                  // prepared → aborted
  absl::Status freed(int64_t transaction);                                  // committed → freed
  absl::StatusOr<std::vector<Transaction>> transactions() const;            // all, by id
  absl::StatusOr<std::vector<Round>> rounds_of(int64_t transaction) const;  // by round

  absl::Status record_checkpoint(const CheckpointRecord& checkpoint);
  absl::Status record_copy(const CopyRecord& copy);

  // Every job of which something was recorded, by index.
  absl::StatusOr<std::vector<JobRecord>> jobs() const;
  // One job; nothing but its index when nothing was recorded.
  absl::StatusOr<JobRecord> job(int job) const;

 private:
  struct State;
  explicit Journal(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace scalai::executor
