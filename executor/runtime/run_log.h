#pragma once
// What a run writes down before it acts, so that another controller can go on with it: every event before the control loop
// hears of it, and every reconfiguration as a transaction.
//
//   execute → prepared, round …      abort → aborted      commit → committed, the record      freed: the old epoch is gone
//
// The events decide. A controller that dies between an event and what follows from it leaves that undone; the next one does
// it again, so everything here may come twice. An error of any of these ends the run. One thread.

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "ptc/control/events.h"

namespace scalai::executor {

class Journal;

class RunLog {
 public:
  virtual ~RunLog() = default;
  virtual absl::Status event(const control::Event& event) = 0;
  virtual absl::Status execute(const control::Execute& execute) = 0;
  // A round of it (from 1) begins, before which the plan gives up old state: from now on it can only go on.
  virtual absl::Status round(int job, int round) = 0;
  // The last one of these of the execution under way; 0: none.
  virtual absl::StatusOr<int> last_round(int job) const = 0;
  virtual absl::Status abort(int job) = 0;
  virtual absl::Status commit(const control::Commit& commit) = 0;
  virtual absl::Status freed(int job) = 0;
};

// In the journal, which outlives this.
std::unique_ptr<RunLog> log_to(Journal& journal);

}  // namespace scalai::executor
