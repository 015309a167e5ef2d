#pragma once
// Runs a scenario on a runtime, and re-runs the control loop from a log of events.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/control/control.h"
#include "ptc/run/control/runtime.h"

namespace scalai::control {

// Feeds events to the control loop and commands to the runtime until the scenario is over. Errors are the runtime's and
// the policy's (see below); a job that fails is not an error here but in its record.
struct RunOptions {
  bool check_plans = false, reads_samples = false;  // see ControlOptions
  // For scenarios that say `compute: SIMULATED` (sim/simulated_step_time.h); null: they are refused. Outlives the run.
  const step::StepTimeModel* simulated = nullptr;
  // When the policy fails, hand out the report of what was done until then, with every job that was not over as failed
  // and the policy's error as the reason; else that error. A run that can be gone on with wants the error.
  bool report_when_policy_fails = false;
  // A log of the answers of a policy that is a program: those that a run which is gone on with got already
  // (PolicyDecided), and where each new one is written before it counts; may be empty.
  std::vector<Event> answered;
  std::function<absl::Status(const Event&)> record_answer;
  // Called after each event; may be empty.
  std::function<void(double at_s, const Control&)> watch;
};
absl::StatusOr<RunReport> run(const scenario::Scenario& scenario, const scenario::Strategy& strategy, Runtime& runtime,
                              const RunOptions& options = {});

struct ReplayedPlan {
  int number = 0;                  // plans/NNN.binpb
  std::string recorded, replayed;  // digests; "" = that side has no such plan
};

// Feeds the events of the report in `folder` through the control loop again and compares plan digests. Errors: not a
// report folder, an unreadable log. `simulated` as in RunOptions.
absl::StatusOr<std::vector<ReplayedPlan>> replay(const std::string& folder,
                                                 const step::StepTimeModel* simulated = nullptr);

// Where a scenario's step times come from: `analytic`, or `simulated`. Error: that is null and needed.
absl::StatusOr<const step::StepTimeModel*> step_times_of(const scenario::Scenario& scenario,
                                                         const step::StepTimeModel& analytic,
                                                         const step::StepTimeModel* simulated);

}  // namespace scalai::control
