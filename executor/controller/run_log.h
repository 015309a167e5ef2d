#pragma once
// The record of a run, written before each action, so that another controller can continue it: every event before the
// control loop gets it, and every reconfiguration as a transaction.
//
//   execute → prepared, round …    abort → aborted    commit → committed, the record    freed: the old epoch is gone
//
// The events are authoritative. If a controller dies between an event and its consequences, the next controller repeats
// them, so every call here may come twice. Any error ends the run. One thread.

#include <memory>

#include "absl/status/status.h"
#include "ptc/run/control/events.h"

namespace scalai::executor::journal {
class Journal;
}

namespace scalai::executor::controller {

class RunLog {
 public:
  virtual ~RunLog() = default;
  virtual absl::Status event(const control::Event& event) = 0;
  virtual absl::Status execute(const control::Execute& execute) = 0;
  // Round `round` (from 1) begins; before it the plan frees old state, so afterwards there is no way back.
  virtual absl::Status round(int job, int round) = 0;
  // The last round of the execution under way; 0: none.
  virtual absl::StatusOr<int> last_round(int job) const = 0;
  virtual absl::Status abort(int job) = 0;
  virtual absl::Status commit(const control::Commit& commit) = 0;
  virtual absl::Status freed(int job) = 0;
};

// A log in the journal, which outlives it.
std::unique_ptr<RunLog> log_to(journal::Journal& journal);

}  // namespace scalai::executor::controller
