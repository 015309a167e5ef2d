#pragma once
// What a run needs from the world: the simulator and the executor implement this, and replay reads it from a log.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/run/control/events.h"

namespace scalai::control {

// One transfer as it happened, for transfers.csv and the trace.
struct TransferRecord {
  int job = 0;
  int reconfiguration = 0;  // 0 = outside any (background)
  std::string phase;        // "stage", "transfer", "upload", "load", "restore", "checkpoint", "redundancy"
  int round = 0;            // of the plan, from 1; 0 outside rounds
  plan::Location src, dst;
  plan::TransferClass transfer_class = plan::TransferClass::kSameHost;
  int64_t bytes = 0;
  double start_s = 0, end_s = 0;
  std::string status = "done";  // "done", "aborted"
};

// Rate of one link from this moment on, for the trace and the utilisation columns.
struct LinkSample {
  double at_s = 0;
  int link = 0;  // index into Recorder::links
  double bytes_per_s = 0;
};

// The stages of one reconfiguration, which came to its end: as measured, and in scenario time.
struct ExecutionTimes {
  int job = 0;
  int reconfiguration = 0;
  PhaseSeconds measured, scenario;
};

// Steps that a job really trained in one layout, and what one took: as measured, and in scenario time.
struct TrainedSteps {
  int job = 0;
  std::string layout;
  int64_t gpus = 0;
  int64_t steps = 0;
  double measured_s = 0;  // of all of them
  double scenario_step_s = 0;
};

// What a runtime writes down while it runs. Owned by the caller of run(); one thread.
struct Recorder {
  std::vector<cluster::NamedLink> links;   // filled by the runtime before its first event
  std::vector<TransferRecord> transfers;   // in order of end
  std::vector<LinkSample> link_samples;    // in order of time
  std::vector<ExecutionTimes> executions;  // where scenario time is not what is reported; in order of end
  std::vector<TrainedSteps> trained;       // with real training; one for each job and layout
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual absl::Status perform(const Command& command) = 0;
  // Blocks until something happened. Error: the run cannot go on (FailedPrecondition: nothing can ever happen again).
  virtual absl::StatusOr<Event> next_event() = 0;
};

}  // namespace scalai::control
