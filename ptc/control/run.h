#pragma once
// Runs a scenario on a runtime, and re-runs the control loop from a log of events.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/control/control.h"
#include "ptc/control/runtime.h"

namespace scalai::control {

// Feeds events to the control loop and commands to the runtime until the scenario is over. Errors are the runtime's;
// a job that fails is not an error here but in its record.
struct RunOptions {
  bool check_plans = false, reads_samples = false;  // see ControlOptions
  // Called after each event; may be empty.
  std::function<void(double at_s, const Control&)> watch;
};
absl::StatusOr<RunReport> run(const Scenario& scenario, const Strategy& strategy, Runtime& runtime,
                              const RunOptions& options = {});

struct ReplayedPlan {
  int number = 0;                  // plans/NNN.binpb
  std::string recorded, replayed;  // digests; "" = that side has no such plan
};

// Feeds the events of the report in `folder` through the control loop again and compares plan digests. Errors: not a
// report folder, an unreadable log.
absl::StatusOr<std::vector<ReplayedPlan>> replay(const std::string& folder);

}  // namespace scalai::control
