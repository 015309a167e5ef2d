#pragma once
// What a run writes down before it acts, so that another controller can go on with it: every event before the control loop
// hears of it, and every reconfiguration as a transaction.
//
//   execute → prepared      abort → aborted      commit → committed, the record      freed: workers have dropped the old epoch
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
  virtual absl::Status abort(int job) = 0;
  virtual absl::Status commit(const control::Commit& commit) = 0;
  virtual absl::Status freed(int job) = 0;
};

// In the journal, which outlives this.
std::unique_ptr<RunLog> log_to(Journal& journal);

}  // namespace scalai::executor
