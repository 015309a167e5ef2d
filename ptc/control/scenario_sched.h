#pragma once
// A cluster scenario: many jobs of a trace or generator on one cluster (`workload`), or one job on hosts that come and go
// (`recovery`), loaded and validated: what `scalai sim` hands to ptc/sched's engine instead of the control loop.
//
//   FILE.textproto ──► load_cluster_scenario ──► ClusterScenario ──► make_policy, make_changes ──► sched::run
//                          (traces, tables,            └──► recovery_setup ──► sched::simulate_recovery
//                           prices imported)
//
// File names count from the scenario's folder; "${SCALAI_DATA}" at their beginning is the folder of public data: the
// environment variable of that name, or "data" beside the scenario's folder.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/control/scenario.h"
#include "ptc/parallel/step_time_model.h"
#include "ptc/plan/cluster.h"
#include "ptc/sched/engine.h"
#include "ptc/sched/planned/configurations.h"
#include "ptc/sched/planned/fabric.h"
#include "ptc/sched/planned/planned.h"
#include "ptc/sched/recovery/recovery.h"

namespace scalai::control {

// What only a simulator can supply; without it steps are the closed form's and changes do not disturb each other.
struct ClusterSimulators {
  const parallel::StepTimeModel* steps = nullptr;  // for `throughputs { source: "simulated" }`; outlives the scenario
  std::function<std::unique_ptr<sched::Fabric>(const plan::Cluster&)> fabric;
};

// What a change of GPUs takes; exactly one of the first three.
struct ChangesChoice {
  std::string preset;
  std::optional<double> seconds;
  std::string strategy;
  double start_s = 0;             // with `seconds`: the first GPUs of a job
  double checkpoint_every_s = 0;  // with `strategy`: of training
};

// Where a recovery design's numbers come from, for reports.
struct RecoveryChoice {
  std::string throughputs, changes;
};

// Not copied or moved: its parts refer to each other.
struct ClusterScenario {
  ClusterScenario() = default;
  ClusterScenario(const ClusterScenario&) = delete;
  ClusterScenario& operator=(const ClusterScenario&) = delete;

  std::string name, description;
  uint64_t seed = 0;
  plan::Cluster cluster;
  sched::Fleet fleet;                // types are GPU kinds, in order of appearance
  sched::Workload workload;          // empty with `recovery`
  std::string workload_text;         // "gavel trace physical.trace: 96 jobs"
  sched::Availability availability;  // hosts and prices together, by time
  sched::Options options;
  PolicySpec policy;
  ChangesChoice changes;
  std::vector<CostOverride> costs;  // of `changes.strategy`
  std::vector<Expectation> expectations;
  std::vector<std::string> notes;  // what importers left out, how models are trained
  std::optional<RecoveryChoice> recovery;
  sched::RecoverySetup recovery_setup;  // its pointers are into this object

  // Of jobs with models.
  std::unique_ptr<sched::JobModels> models;
  std::unique_ptr<sched::Configurations> configurations;
  std::unique_ptr<sched::Throughput> throughput;
  std::unique_ptr<sched::Fabric> fabric;
  std::unique_ptr<sched::RecoveryPlans> recovery_plans;
  std::vector<std::pair<std::string, std::string>> files;  // what was read, as the scenario names it, and its checksum

  std::string resolved_text;  // the scenario with its cluster and the defaults written out
  std::string digest;         // of that and of what was read
};

struct ClusterLoadOptions {
  std::vector<std::string> settings;  // scenario_set.h; expectations are dropped when there are any
  std::string cluster_file;           // replaces the scenario's cluster
  ClusterSimulators simulators;
};

// Errors: InvalidArgument with all problems, rendered (ptc/base/diagnostics.h); FailedPrecondition (exit code 4) when all that is
// wrong is files that are not there, with what they are and where to get them.
absl::StatusOr<std::unique_ptr<ClusterScenario>> load_cluster_scenario(const std::string& path,
                                                                       const ClusterLoadOptions& options = {});

// Of the contents of all files and folders that a scenario (of any kind) names: traces, tables, clusters, options that are
// files. Names of what is not there count, too. Errors: InvalidArgument for a text that cannot be parsed.
absl::StatusOr<std::string> digest_of_files(const std::string& text, const std::string& file_name);

// A policy and a change model for one run; the scenario outlives them. Errors: none that loading would not have found.
absl::StatusOr<std::unique_ptr<sched::Policy>> make_policy(const ClusterScenario& scenario);
absl::StatusOr<std::unique_ptr<sched::ChangeModel>> make_changes(const ClusterScenario& scenario);

// The scenario's expectations against a summary.json (report.h): a line for each that fails.
std::string failed_expectations(const ClusterScenario& scenario, const std::string& summary_json_text);

}  // namespace scalai::control
