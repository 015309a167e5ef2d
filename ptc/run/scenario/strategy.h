#pragma once
// How a job reacts to a change of its GPUs. A strategy is data: planner and placement options, which configurations it
// may choose, how state travels, and a cost preset. docs/scenarios.md has the table with the source of every number.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cost/change/costs.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/planner.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::scenario {

using change::communicator_s;
using change::Costs;

struct Strategy {
  std::string name;
  std::string summary;  // one line for --help and tables
  plan::PlannerOptions planner;
  plan::PlacementOptions placement;  // which device takes which rank
  bool data_parallel_only = false;   // tp, pp, cp, ep stay what they were at the start
  bool from_checkpoint = false;      // planned changes, too, go by way of a checkpoint
  Costs costs;

  // Knows how to keep a cap: state goes from device to device, not by way of hosts or storage.
  bool caps_memory() const { return planner.in_place && planner.sources != plan::SourceRule::kStorage; }
  bool staged() const { return !planner.in_place; }  // state goes through host memory: stage, pull, upload, load
};

// All strategies in documented order, with their presets.
const std::vector<Strategy>& strategies();

// The strategy by name with the scenario's overrides applied (those without a name first, then those that name it).
absl::StatusOr<Strategy> find_strategy(std::string_view name, const std::vector<CostOverride>& overrides);

// What a strategy cannot do without and a scenario lacks.
struct UnmetNeed {
  int job = -1;  // < 0: the cluster lacks it
  std::string problem, hint;
};
// `cluster` may be null: then nothing is said of it.
std::vector<UnmetNeed> unmet_needs(const Strategy& strategy, const cluster::Cluster* cluster,
                                   const std::vector<JobSpec>& jobs);

// Worth knowing before a run, one sentence each: jobs that the strategy can do nothing for, and jobs that a failure of
// the script may end, because some of their state is on one host only.
std::vector<std::string> warnings_of(const Strategy& strategy, const Scenario& scenario);

}  // namespace scalai::scenario
