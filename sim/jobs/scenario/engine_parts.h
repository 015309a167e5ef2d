#pragma once
// What the engine needs of a scenario of many jobs, or a recovery design of its scenario, beside ManyJobs. Built while
// the scenario is loaded. `scalai sim` runs it by jobs::run or jobs::simulate_recovery instead of the control loop. One
// thread.
//
//   EngineParts parts;
//   load(FILE, {.engine = &parts}) ──► Scenario ──► make_policy, make_changes ──► jobs::run
//                                              └──► parts.recovery_setup ──► jobs::simulate_recovery

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cluster/cluster.h"
#include "ptc/cost/step/step_time_model.h"
#include "ptc/report/query/query.h"
#include "ptc/run/policy/policy.h"
#include "ptc/run/scenario/scenario.h"
#include "sim/jobs/engine.h"
#include "sim/jobs/planned/configurations.h"
#include "sim/jobs/planned/fabric.h"
#include "sim/jobs/planned/planned.h"
#include "sim/jobs/recovery/recovery.h"

namespace scalai::scenario {

// Simulators from the caller. Without them step times are the closed form's, and changes do not share links.
struct Simulators {
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
  bool save_first = true;         // as ChangeStrategy
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

// Owns all parts of a run beside the scenario. They refer to each other, and to Scenario::many_jobs, which outlives
// them. For one load.
class EngineParts final : public Engine {
 public:
  EngineParts() = default;
  explicit EngineParts(Simulators given) : simulators(std::move(given)) {}
  EngineParts(const EngineParts&) = delete;
  EngineParts& operator=(const EngineParts&) = delete;

  std::vector<Design> recovery_designs() const override;
  void build_recovery(internal::Context& context, Scenario& scenario) override;
  void build_throughputs(internal::Context& context, Scenario& scenario) override;
  void build_changes(internal::Context& context, Scenario& scenario) override;

  Simulators simulators;
  jobs::Options options;
  ChangesChoice changes;
  std::vector<UserMetric> metrics;
  std::optional<RecoveryChoice> recovery;
  jobs::RecoverySetup recovery_setup;

  // Set for jobs with models.
  cluster::Cluster cluster;  // the scenario's
  std::unique_ptr<jobs::JobModels> models;
  std::unique_ptr<jobs::Configurations> configurations;
  std::unique_ptr<policy::Throughput> throughput;
  std::unique_ptr<jobs::Fabric> fabric;
  std::unique_ptr<jobs::RecoveryPlans> recovery_plans;

 private:
  void begin(const internal::Context& context, const Scenario& scenario);
};

// By job: its estimated over its true work.
std::vector<double> estimate_factors_of(const Scenario& scenario);
// A policy (with its estimates) and a change model for one run. They refer to the scenario and its parts, which outlive
// them. No errors beyond those of loading.
absl::StatusOr<std::unique_ptr<policy::Policy>> make_policy(const Scenario& scenario);
absl::StatusOr<std::unique_ptr<jobs::ChangeModel>> make_changes(const Scenario& scenario, const EngineParts& parts);

// Columns of jobs.csv that only some scenarios have.
std::vector<std::string> more_columns(const ManyJobs& many);
// Tables that metrics of the user may be of: CSV files of the report, without ".csv"; first the one they are of by
// default.
std::vector<std::string> metric_tables();
// One of these, without rows; and the rows of the file's text, without its header.
report::QueryTable metric_table_of(const ManyJobs& many, const std::string& name);
void add_rows(std::string_view csv, report::QueryTable* table);

}  // namespace scalai::scenario
