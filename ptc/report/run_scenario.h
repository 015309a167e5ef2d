#pragma once
// The scenario of a run of real training with what was measured in place of what was assumed, so that `scalai sim` says
// what other changes of that job would take. Pure functions.
//
//   configs.step_time     mean of the steps in that layout
//   costs.plan, restart   medians over the completed changes
//   costs.communicator    median of resume: processes meet, build the model, map it
//   costs.allocate_rate   median of the most bytes that a device allocated / prepare
//   costs.verify_rate     median of the most bytes that a device received / verify
//   events                requests for GPUs, at their steps, if the scenario had no events: users made them
//
// Links stay what the cluster says; `scalai exec calibrate` measures them.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/plan/plan.h"

namespace scalai::report {

struct MeasuredValue {
  std::string job;       // "": all
  std::string what;      // "step_time of tp2", "communicator"
  std::string measured;  // as the scenario has it now
  int64_t samples = 0;   // steps or changes
};

struct MeasuredScenario {
  std::string text;
  std::vector<MeasuredValue> values;
};

// A plan of the run by its name in the report, "plans/001.binpb".
using PlanReader = std::function<absl::StatusOr<plan::Plan>(const std::string& file)>;

// From the run's resolved scenario and its summary.json. InvalidArgument: they are none, or not of real training;
// errors of `plan_of`.
absl::StatusOr<MeasuredScenario> measured_scenario(const std::string& resolved, const std::string& summary,
                                                   const PlanReader& plan_of);

}  // namespace scalai::report
