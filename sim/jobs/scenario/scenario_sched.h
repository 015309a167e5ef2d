#pragma once
// A cluster scenario, loaded and validated: many jobs of a trace or generator on one cluster (`workload`), or one job
// on hosts that come and go (`recovery`). `scalai sim` runs it by jobs::run or jobs::simulate_recovery instead of the
// control loop. One thread.
//
//   FILE.textproto ──► load_cluster_scenario ──► ClusterScenario ──► make_policy, make_changes ──► jobs::run
//                          (traces, tables,            └──► recovery_setup ──► jobs::simulate_recovery
//                           prices imported)
//
// File names are relative to the scenario's folder, or to the one that it names. "${SCALAI_DATA}" at the beginning is
// the folder of public data: the environment variable of that name, or "data" beside the scenario's folder.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cluster/cluster.h"
#include "ptc/cost/step/step_time_model.h"
#include "ptc/report/query/query.h"
#include "ptc/run/policy/policies/estimates.h"
#include "ptc/run/policy/policies/quotas.h"
#include "ptc/run/scenario/scenario.h"
#include "sim/jobs/engine.h"
#include "sim/jobs/planned/configurations.h"
#include "sim/jobs/planned/fabric.h"
#include "sim/jobs/planned/planned.h"
#include "sim/jobs/recovery/recovery.h"

namespace scalai::scenario {

// Simulators from the caller. Without them step times are the closed form's, and changes do not share links.
struct ClusterSimulators {
  const step::StepTimeModel* steps = nullptr;  // for `throughputs { source: "simulated" }`; outlives the scenario
  std::function<std::unique_ptr<jobs::Fabric>(const cluster::Cluster&)> fabric;
};

// Time of a change of GPUs; exactly one of the first three is set.
struct ChangesChoice {
  std::string preset;
  std::optional<double> seconds;
  std::string strategy;
  double start_s = 0;             // with `seconds`: the first GPUs of a job
  double checkpoint_every_s = 0;  // with `strategy`: seconds of training
};

// A number of the user (ptc/report/query), over the columns of jobs.csv or another file of the report.
struct UserMetric {
  std::string name, expression;
  std::string table = "jobs";
};

// Sources of the numbers of a recovery design, for reports.
struct RecoveryChoice {
  std::string throughputs, changes;
};

// Owns all parts of a run. Neither copied nor moved: its parts refer to each other.
struct ClusterScenario {
  ClusterScenario() = default;
  ClusterScenario(const ClusterScenario&) = delete;
  ClusterScenario& operator=(const ClusterScenario&) = delete;

  std::string name, description;
  uint64_t seed = 0;
  cluster::Cluster cluster;
  policy::Fleet fleet;                // types are GPU kinds, in the order of first use
  policy::Workload workload;          // empty with `recovery`
  std::string workload_text;          // "gavel trace physical.trace: 96 jobs"
  policy::Availability availability;  // hosts and prices, sorted by time
  double availability_span_s = 0;     // of the host trace: it may go on after its last change
  jobs::Options options;
  PolicySpec policy;
  policy::EstimateError estimates;       // what the policy believes
  std::optional<policy::Quotas> quotas;  // of virtual clusters
  ChangesChoice changes;
  std::vector<CostOverride> costs;  // for `changes.strategy`
  std::vector<UserMetric> metrics;
  std::vector<Expectation> expectations;
  std::vector<std::string> notes;     // omissions of importers, training settings of models
  std::vector<std::string> left_out;  // parameters of the file's policy or design that the one set instead has not
  std::optional<RecoveryChoice> recovery;
  jobs::RecoverySetup recovery_setup;  // its pointers refer to this object

  // Set for jobs with models.
  std::unique_ptr<jobs::JobModels> models;
  std::unique_ptr<jobs::Configurations> configurations;
  std::unique_ptr<policy::Throughput> throughput;
  std::unique_ptr<jobs::Fabric> fabric;
  std::unique_ptr<jobs::RecoveryPlans> recovery_plans;
  std::vector<std::pair<std::string, std::string>> files;  // files read: name in the scenario, checksum

  std::string folder;         // as Scenario::folder
  std::string resolved_text;  // the scenario with its cluster and all defaults, without its folder
  std::string digest;         // hash of resolved_text and of the files
};

struct ClusterLoadOptions {
  std::vector<std::string> settings;  // see ptc/run/scenario/scenario_set.h; any setting drops the expectations
  std::string cluster_file;           // replaces the scenario's cluster
  ClusterSimulators simulators;
};

// Loads a scenario file. InvalidArgument: all problems, rendered (ptc/base/diagnostics.h). FailedPrecondition (exit
// code 4): the only problems are missing files; the message describes them and their origin.
absl::StatusOr<std::unique_ptr<ClusterScenario>> load_cluster_scenario(const std::string& path,
                                                                       const ClusterLoadOptions& options = {});

// Hash of the contents of all files and folders that a scenario of any kind names: traces, tables, clusters, options.
// The names of missing files count, too. InvalidArgument: the text cannot be parsed.
absl::StatusOr<std::string> digest_of_files(const std::string& text, const std::string& file_name);

// A policy (with its estimates) and a change model for one run. They refer to the scenario, which outlives them. No
// errors beyond those of loading.
// Columns of jobs.csv that only some scenarios have.
std::vector<std::string> more_columns(const ClusterScenario& scenario);
// Tables that metrics of the user may be of: CSV files of the report, without ".csv"; first the one they are of by
// default.
std::vector<std::string> metric_tables();
// One of these, without rows; and the rows of the file's text, without its header.
report::QueryTable metric_table_of(const ClusterScenario& scenario, const std::string& name);
void add_rows(std::string_view csv, report::QueryTable* table);
// By job: its estimated over its true work.
std::vector<double> estimate_factors_of(const ClusterScenario& scenario);
absl::StatusOr<std::unique_ptr<policy::Policy>> make_policy(const ClusterScenario& scenario);
absl::StatusOr<std::unique_ptr<jobs::ChangeModel>> make_changes(const ClusterScenario& scenario);

// Checks the scenario's expectations against a summary.json (ptc/report/report.h); one line per failed one.
std::string failed_expectations(const ClusterScenario& scenario, const std::string& summary_json_text);

}  // namespace scalai::scenario
