// G4: workload 6 of Pollux on 16 nodes of 4 GPUs, an interval of 60 s, 30 s for each change of GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "labs/validation/policies/emulations/pollux_optimus.h"
#include "labs/validation/policies/emulations/pollux_replay.h"
#include "labs/validation/policies/internal/sets.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/goodput/goodput.h"
#include "ptc/run/policy/policies/order/intervals.h"
#include "ptc/run/scenario/trace/import.h"

namespace scalai::policy::validation {
namespace {

absl::StatusOr<double> mean_jct_s(const std::string& data, const std::string& policy, BatchMode mode, uint64_t seed) {
  SCALAI_ASSIGN_OR_RETURN(const std::string path, need(data, "pollux/workloads/workload-6.csv"));
  SCALAI_ASSIGN_OR_RETURN(const std::string profiles, need(data, "pollux/profiles"));
  SCALAI_ASSIGN_OR_RETURN(trace::Imported imported, trace::import_trace("pollux", path));
  const Fleet fleet = fleet_of({{"t4", 64}}, 4);
  SCALAI_RETURN_IF_ERROR(pollux_set_work(profiles, mode, &imported.workload));
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<GoodputSource> throughput,
                          pollux_throughput(profiles, fleet, imported.workload, mode));
  // The authors' simulator asks every policy once a minute. "": its own Optimus.
  std::unique_ptr<Policy> asked = at_intervals(make_optimus_by_arrival(), 60);
  if (!policy.empty()) {
    SCALAI_ASSIGN_OR_RETURN(asked, make_policy(policy, std::vector<std::string>{"interval=60s"}, seed));
  }
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<jobs::ChangeModel> changes, jobs::make_preset_changes("pollux", fleet));
  jobs::Setup setup;
  setup.workload = &imported.workload;
  setup.fleet = &fleet;
  setup.throughput = throughput.get();
  setup.policy = asked.get();
  setup.changes = changes.get();
  SCALAI_ASSIGN_OR_RETURN(const Outcome outcome, run(setup));
  const std::vector<double> times = completion_times_s(imported.workload, outcome);
  if (times.size() != imported.workload.jobs.size()) {
    return failed(fmt::format("{} of {} jobs finished under {}", times.size(), imported.workload.jobs.size(), policy));
  }
  return mean(times);
}

// Its simulator with our search.
absl::StatusOr<double> replayed_jct_s(const std::string& data, uint64_t seed) {
  SCALAI_ASSIGN_OR_RETURN(const std::string path, need(data, "pollux/workloads/workload-6.csv"));
  SCALAI_ASSIGN_OR_RETURN(const std::string folder, need(data, "pollux/profiles"));
  SCALAI_ASSIGN_OR_RETURN(const trace::Imported imported, trace::import_trace("pollux", path));
  SCALAI_ASSIGN_OR_RETURN(const Profiles profiles, Profiles::load(folder));
  SCALAI_ASSIGN_OR_RETURN(const std::vector<double> times, replay_pollux(profiles, imported.workload, {.seed = seed}));
  return mean(times);
}

}  // namespace

Rows pollux_workload(const std::string& data) {
  std::vector<ReferenceRow> rows;
  struct Case {
    const char *policy, *name;
    BatchMode mode;
    double jct_s;
  };
  for (const Case& c : {Case{"pollux", "Pollux", BatchMode::kAdaptive, 2446.1},
                        Case{"optimus", "Optimus with an oracle", BatchMode::kFixed, 5301.9},
                        Case{"tiresias", "Tiresias", BatchMode::kFixed, 3469.7},
                        Case{"", "Optimus by arrival", BatchMode::kFixed, 5301.9}}) {
    SCALAI_ASSIGN_OR_RETURN(const double ours, mean_jct_s(data, c.policy, c.mode, 1));
    rows.push_back({.set = "G4",
                    .policy = c.policy,
                    .name = fmt::format("workload 6, {}: average JCT", c.name),
                    .unit = "s",
                    .reference = c.jct_s,
                    .ours = ours,
                    .tolerance = 0.10,
                    .note = "seed 1"});
  }
  SCALAI_ASSIGN_OR_RETURN(const double replayed, replayed_jct_s(data, 1));
  rows.push_back({.set = "G4",
                  .policy = "",
                  .name = "workload 6, Pollux in its own simulator: average JCT",
                  .unit = "s",
                  .reference = 2446.1,
                  .ours = replayed,
                  .tolerance = 0.03,
                  .note = "seed 1"});
  // Direction: Pollux before Tiresias before Optimus.
  const bool ordered = rows[0].ours < rows[2].ours && rows[2].ours < rows[1].ours;
  rows.push_back({.set = "G4",
                  .policy = "",
                  .name = "order Pollux < Tiresias < Optimus",
                  .unit = "holds",
                  .reference = 1,
                  .ours = ordered ? 1.0 : 0.0,
                  .tolerance = 0,
                  .note = ""});
  return rows;
}

}  // namespace scalai::policy::validation
