// How fast jobs run, who gets which GPUs, and what a change takes.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ptc/base/status.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/external/external.h"
#include "ptc/run/policy/policies/goodput/goodput.h"
#include "ptc/run/scenario/strategy.h"
#include "ptc/run/scenario/trace/tables.h"
#include "sim/jobs/planned/model_throughput.h"
#include "sim/jobs/recovery/designs.h"
#include "sim/jobs/recovery/period.h"
#include "sim/jobs/scenario/internal/sched_parts.h"

namespace scalai::scenario::internal {
namespace {

const std::vector<std::string> kModelOptions = {"model",     "model.",   "global-batch", "sequence",    "precision",
                                                "optimizer", "schedule", "recompute",    "micro-batch", "pins"};

constexpr double kCheckpointEvery_s = 30 * 60;  // where hosts fail and nothing is said

double share_within(SchedContext& context, SetValues& values, const std::string& name, double least, double most) {
  const double share = values.positive(name, 0);
  if (share == 0 || (share >= least && share <= most)) return share;
  context.source.error(values.path(name), fmt::format("\"{}\" is a share of what a job asks for, {} to {}; found {}",
                                                      name, least, most, values.text(name)));
  return 0;
}

// "elastic-min=0.5" and "elastic-max=2": what a job may be given, as a share of what it asks for.
void make_elastic(SchedContext& context, SetValues& values) {
  const double least = share_within(context, values, "elastic-min", 0, 1);
  const double most = share_within(context, values, "elastic-max", 1, 1e6);
  constexpr double kMostGpus = std::numeric_limits<int>::max();
  for (policy::Job& job : context.scenario.workload.jobs) {
    if (least > 0) job.min_gpus = std::clamp(static_cast<int>(std::ceil(job.gpus * least)), 1, job.gpus);
    if (most > 0) job.max_gpus = std::max(job.gpus, static_cast<int>(std::min(job.gpus * most, kMostGpus)));
  }
}

// A number that later is one of 32 bits.
int small_count(SchedContext& context, SetValues& values, const std::string& name) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  const int64_t count = values.count(name, 0);
  if (count >= 0 && count <= kMost) return static_cast<int>(count);
  context.source.error(values.path(name), fmt::format("\"{}\" is at most {}, found {}", name, kMost, count));
  return 0;
}

// Models by type: those that the options name, else catalogue models of that name.
void build_models(SchedContext& context, SetValues& values) {
  ClusterScenario& scenario = context.scenario;
  jobs::JobModelSpec common{.model = values.text("model"),
                            .global_batch = values.count("global-batch", 0),
                            .sequence = small_count(context, values, "sequence"),
                            .precision = values.text("precision"),
                            .optimizer = values.text("optimizer"),
                            .schedule = values.text("schedule"),
                            .recompute = values.text("recompute"),
                            .micro_batch = small_count(context, values, "micro-batch"),
                            .pins = values.text("pins"),
                            .whole_batches = false};
  std::map<std::string, jobs::JobModelSpec> by_type;
  for (const policy::Job& job : scenario.workload.jobs) {
    const std::string own = values.text("model." + job.type, common.model);
    if (own.empty()) continue;
    jobs::JobModelSpec spec = common;
    spec.model = own;
    by_type.emplace(job.type, std::move(spec));
  }
  common.model.clear();
  auto models = jobs::JobModels::of(scenario.workload, common, by_type);
  if (!models.ok()) {
    report_list(context.source, "throughputs", message_of(models.status()),
                "set: \"model=llama3-8b\" says what all jobs train, \"model.TYPE=NAME\" what those of one type do");
    return;
  }
  scenario.models = std::make_unique<jobs::JobModels>(*std::move(models));
  scenario.configurations = std::make_unique<jobs::Configurations>(
      scenario.cluster, scenario.fleet, *scenario.models,
      context.message.throughputs().source() == "simulated" ? context.simulators.steps : nullptr);
  scenario.notes.push_back("models: " + scenario.models->description());
}

// What a trace tells is a run time: a job's work is what it does in that time on what it asked for, on the type where
// it is fastest.
void set_model_work(SchedContext& context) {
  ClusterScenario& scenario = context.scenario;
  std::map<std::pair<std::string, int>, int> nowhere;  // type and GPUs → jobs
  for (policy::Job& job : scenario.workload.jobs) {
    double fastest = 0;
    bool fits_fleet = false;
    for (size_t t = 0; t < scenario.fleet.types.size(); ++t) {
      const auto type = policy::GpuType(static_cast<int64_t>(t));
      if (job.gpus > scenario.fleet.gpus(type)) continue;
      fits_fleet = true;
      fastest = std::max(fastest, scenario.throughput->rate(job, type, job.gpus, 0).per_s);
    }
    if (job.duration_s > 0 && fastest > 0) job.work = std::max(1.0, std::round(job.duration_s * fastest));
    if (fits_fleet && fastest == 0) ++nowhere[{job.type, job.gpus}];
  }
  for (const auto& [kind, jobs] : nowhere) {
    context.source.error("throughputs",
                         fmt::format("{} {} of type \"{}\" with {} GPUs {} on no GPU type of the cluster", jobs,
                                     jobs == 1 ? "job" : "jobs", kind.first, kind.second, jobs == 1 ? "runs" : "run"),
                         "the model's state does not fit there: name another model, or leave such jobs out with "
                         "workload { set: \"gpus-min=8\" }");
  }
}

void build_model_throughput(SchedContext& context, SetValues& values) {
  build_models(context, values);
  ClusterScenario& scenario = context.scenario;
  if (!scenario.models) return;
  scenario.throughput = jobs::make_model_throughput(*scenario.configurations);
  set_model_work(context);
}

void build_pollux(SchedContext& context, SetValues& values) {
  ClusterScenario& scenario = context.scenario;
  const std::string& policy = context.message.policy().name();
  const std::string mode = values.text("batch", policy == "pollux" || policy == "sia" ? "adaptive" : "fixed");
  if (mode != "adaptive" && mode != "fixed") {
    context.source.error(values.path("batch"), fmt::format("\"batch\" is adaptive or fixed, found \"{}\"", mode));
    return;
  }
  const auto batch = mode == "adaptive" ? policy::BatchMode::kAdaptive : policy::BatchMode::kFixed;
  const std::string folder = table_path(context, "throughputs.file", context.message.throughputs().file());
  if (folder.empty()) return;
  const absl::Status set = policy::pollux_set_work(folder, batch, &scenario.workload);
  if (!set.ok()) return report_list(context.source, "throughputs.file", message_of(set));
  auto source = policy::pollux_throughput(folder, scenario.fleet, scenario.workload, batch);
  if (source.ok())
    scenario.throughput = *std::move(source);
  else
    report_list(context.source, "throughputs.file", message_of(source.status()));
}

void build_table(SchedContext& context, trace::Beyond beyond) {
  ClusterScenario& scenario = context.scenario;
  const proto::Throughputs& given = context.message.throughputs();
  if (given.file().empty()) return context.source.missing("throughputs.file", "a table is a file or a folder");
  const std::string file = table_path(context, "throughputs.file", given.file());
  if (file.empty()) return;
  const std::string format = given.format().empty() ? "scalai" : given.format();
  auto table = trace::table_throughput(format, file, scenario.fleet, scenario.workload, beyond);
  if (table.ok())
    scenario.throughput = *std::move(table);
  else
    report_list(context.source, "throughputs.file", message_of(table.status()));
}

bool check_source(SchedContext& context, const std::string& name) {
  const std::vector<std::string> known = {"table", "duration", "analytic", "simulated"};
  if (std::find(known.begin(), known.end(), name) != known.end()) return true;
  context.source.error_unknown("throughputs.source", "source of throughputs", name, known);
  return false;
}

void check_fields(SchedContext& context, const std::string& name, bool pollux) {
  const auto no = [&](const std::string& field, bool right) {
    if (context.source.given("throughputs." + field) && !right) {
      context.source.error("throughputs." + field, fmt::format("\"{}\" has no meaning for source \"{}\"", field, name));
    }
  };
  no("file", name == "table");
  no("format", name == "table");
  no("beyond", (name == "table" && !pollux) || name == "duration");
}

// Each parameter by itself, so that each problem stands at its place.
void check_parameters(SchedContext& context, const PolicySpec& policy) {
  for (size_t i = 0; i < policy.set.size(); ++i) {
    const auto made = policy::make_policy(policy.name, std::span(&policy.set[i], 1), context.scenario.seed);
    if (made.ok()) continue;
    report_list(context.source, fmt::format("policy.set[{}]", i), message_of(made.status()));
  }
  if (context.source.broken_inside("policy") || policy.set.size() < 2) return;
  const int before = context.source.errors();
  const auto made = policy::make_policy(policy.name, policy.set, context.scenario.seed);
  if (!made.ok() && context.source.errors() == before) {
    report_list(context.source, "policy.set", message_of(made.status()));
  }
}

// One period for all jobs, by the losses of the whole cluster: a job on few of its hosts loses work less often and
// would do better with a longer one.
double young_daly(SchedContext& context, SetValues& values, double write_s) {
  const double until_s = context.scenario.options.until_s;
  const double mtbf_s =
      jobs::mean_time_between_losses_s(context.scenario.availability, until_s < policy::kNever ? until_s : 0);
  if (mtbf_s < policy::kNever && write_s > 0) return jobs::young_daly_period_s(write_s, mtbf_s);
  context.source.error(values.path("checkpoint-every"),
                       "Young and Daly's period needs hosts that fail (\"availability\") and \"checkpoint-write\"",
                       "or write a time, like checkpoint-every=30min");
  return 0;
}

void build_checkpoints(SchedContext& context, SetValues& values) {
  jobs::Checkpoints& checkpoints = context.scenario.options.checkpoints;
  checkpoints.write_s = values.seconds("checkpoint-write", 0);
  checkpoints.every_s = values.text("checkpoint-every") == "young-daly"
                            ? young_daly(context, values, checkpoints.write_s)
                            : values.seconds("checkpoint-every", 0);
}

// What a run assumes of hosts that fail, where it says nothing. Plans know which state is left and which is not.
void assume_lost_work(ClusterScenario& scenario, const SetValues& values) {
  const auto loses = [](const policy::FleetEvent& event) {
    return event.kind == policy::FleetEvent::Kind::kFailed || event.kind == policy::FleetEvent::Kind::kTaken;
  };
  const auto& events = scenario.availability.events;
  if (values.has("checkpoint-every") || std::none_of(events.begin(), events.end(), loses)) return;
  if (!scenario.changes.strategy.empty()) {
    scenario.notes.emplace_back(
        "assumed: no checkpoints, so a job of whose state no host has all any more starts again; in changes, set: "
        "\"checkpoint-every=30min\" lets it go on from storage");
    return;
  }
  scenario.options.checkpoints.every_s = kCheckpointEvery_s;
  scenario.notes.emplace_back(
      "assumed: a job whose host fails goes on from a checkpoint, which it writes after every 30 min of training; in "
      "changes, set: \"checkpoint-every=TIME\" says another time, 0s that no work is lost");
}

// Plans that read checkpoints need the rate of the storage.
void check_storage(SchedContext& context, const SetValues& values) {
  const ClusterScenario& scenario = context.scenario;
  if (scenario.cluster.storage_read_bytes_per_s > 0) return;
  const std::string hint = "add storage { read: \"10GB/s\" } to the cluster, or say what changes cost with \"seconds\"";
  const auto strategy = find_strategy(scenario.changes.strategy, {});
  if (strategy.ok() && strategy->from_checkpoint) {
    context.source.error("changes.strategy",
                         fmt::format("strategy \"{}\" needs a cluster with \"storage\"", strategy->name), hint);
  } else if (scenario.changes.checkpoint_every_s > 0) {
    context.source.error(values.path("checkpoint-every"), "jobs write checkpoints, and the cluster has no storage",
                         hint);
  }
}

}  // namespace

void build_throughputs(SchedContext& context) {
  if (!context.cluster_ok || !context.workload_ok) return;
  ClusterScenario& scenario = context.scenario;
  const proto::Throughputs& given = context.message.throughputs();
  const std::string name = !given.source().empty() ? given.source() : given.file().empty() ? "duration" : "table";
  if (!check_source(context, name)) return;
  if (context.message.compute() == proto::Scenario::SIMULATED) {
    context.source.error("compute", "\"compute\" has no meaning with \"workload\"",
                         "steps are simulated with throughputs { source: \"simulated\" set: \"model=llama3-8b\" }");
  }
  const bool pollux = given.format() == "pollux", modelled = name == "analytic" || name == "simulated";
  check_fields(context, name, pollux);
  std::vector<std::string> known = {"elastic-min", "elastic-max"};
  if (modelled) known.insert(known.end(), kModelOptions.begin(), kModelOptions.end());
  if (pollux) known.push_back("batch");
  SetValues values(context.source, "throughputs", texts_of(given.set()), known);
  make_elastic(context, values);
  const auto beyond = trace::beyond_of(given.beyond().empty() ? "refuse" : given.beyond());
  if (!beyond.ok()) {
    context.source.error_unknown("throughputs.beyond", "rule", given.beyond(), {"refuse", "nearest", "linear", "sqrt"});
  } else if (pollux) {
    build_pollux(context, values);
  } else if (modelled) {
    build_model_throughput(context, values);
  } else if (name == "table") {
    build_table(context, *beyond);
  } else {
    for (const char* share : {"elastic-min", "elastic-max"}) {
      if (values.has(share) && given.beyond().empty())
        context.source.error(values.path(share), "on other numbers of GPUs than the trace's no speed is known",
                             "add beyond: \"linear\" or \"sqrt\"");
    }
    scenario.throughput = trace::duration_throughput(*beyond);
  }
}

void build_policy(SchedContext& context) {
  Source& source = context.source;
  const proto::Policy& given = context.message.policy();
  PolicySpec& policy = context.scenario.policy;
  policy.name = given.name();
  policy.set = texts_of(given.set());
  policy.exec = given.exec();
  policy.folder = folder_of(context.file_name);
  if (source.given("policy.timeout")) {
    policy.timeout_s = source.seconds("policy.timeout", given.timeout()).value_or(10);
    if (given.exec().empty()) source.error("policy.timeout", "only a program (\"exec\") has a timeout");
    if (policy.timeout_s == 0) source.error("policy.timeout", "a timeout of 0 leaves no time for an answer");
  }
  if (!policy.exec.empty()) {
    if (!policy.name.empty()) {
      source.error("policy.exec", "\"name\" and \"exec\" exclude each other", "",
                   {{"policy.name", "the name is here"}});
    }
    if (!policy.set.empty()) source.error("policy.set", "a program takes its parameters on its command line");
    return;
  }
  if (policy.name.empty()) policy.name = "fifo";
  std::vector<std::string> known;
  for (const policy::PolicyInfo& info : policy::policies()) known.push_back(info.name);
  if (const std::string why = policy::left_out(policy.name); !why.empty()) {
    source.error("policy.name", why, "`scalai policies` lists those that it has");
  } else if (std::find(known.begin(), known.end(), policy.name) == known.end()) {
    source.error_unknown("policy.name", "policy", policy.name, known);
  } else {
    check_parameters(context, policy);
  }
}

jobs::ChangeStrategy change_strategy(const std::string& name, const std::vector<CostOverride>& overrides) {
  const Strategy strategy = find_strategy(name, overrides).value();
  return {.planner = strategy.planner,
          .placement = strategy.placement,
          .from_checkpoint = strategy.from_checkpoint,
          .costs = strategy.costs};
}

void build_changes(SchedContext& context) {
  Source& source = context.source;
  ClusterScenario& scenario = context.scenario;
  const proto::Changes& given = context.message.changes();
  ChangesChoice& changes = scenario.changes;
  const bool modelled = scenario.configurations != nullptr;
  SetValues values(source, "changes", texts_of(given.set()), {"start", "checkpoint-every", "checkpoint-write"});
  build_checkpoints(context, values);
  changes.start_s = values.seconds("start", 0);
  changes.preset = given.preset();
  changes.strategy = given.strategy();
  if (!given.seconds().empty()) changes.seconds = source.seconds("changes.seconds", given.seconds());
  std::string first;
  for (const std::string field : {"preset", "seconds", "strategy"}) {
    if (!source.given("changes." + field)) continue;
    if (!first.empty()) {
      source.error("changes." + field, fmt::format("\"{}\" and \"{}\" exclude each other", first, field), "",
                   {{"changes." + first, "the first is here"}});
    } else {
      first = field;
    }
  }
  if (first.empty() && modelled) changes.strategy = "reshard";
  if (first.empty() && !modelled) changes.seconds = 0;
  if (!changes.preset.empty() && !jobs::make_preset_changes(changes.preset, scenario.fleet).ok()) {
    source.error_unknown("changes.preset", "preset", changes.preset, jobs::change_preset_names());
  }
  if (values.has("start") && !changes.seconds) source.error(values.path("start"), "\"start\" goes with \"seconds\"");
  assume_lost_work(scenario, values);
  if (changes.strategy.empty()) return;
  const std::vector<std::string> known = strategy_names();
  if (std::find(known.begin(), known.end(), changes.strategy) == known.end()) {
    source.error_unknown("changes.strategy", "strategy", changes.strategy, known);
  } else if (!modelled && context.workload_ok && context.message.throughputs().source() != "analytic" &&
             context.message.throughputs().source() != "simulated") {
    source.error("changes.strategy", "plans need jobs with a model",
                 "add throughputs { source: \"analytic\" set: \"model=llama3-8b\" }, or give seconds");
  }
  // Planned changes know themselves what is run again (planned.h).
  changes.checkpoint_every_s = std::exchange(scenario.options.checkpoints.every_s, 0);
  check_storage(context, values);
  if (modelled) {
    scenario.fabric = context.simulators.fabric ? context.simulators.fabric(scenario.cluster)
                                                : jobs::make_unshared_fabric(scenario.cluster);
  }
}

}  // namespace scalai::scenario::internal

namespace scalai::scenario {

std::vector<double> estimate_factors_of(const ClusterScenario& scenario) {
  return policy::estimate_factors(scenario.estimates, scenario.seed, scenario.workload.jobs.size());
}

absl::StatusOr<std::unique_ptr<policy::Policy>> make_policy(const ClusterScenario& scenario) {
  const PolicySpec& policy = scenario.policy;
  const auto one = [&] {
    return policy.exec.empty() ? policy::make_policy(policy.name, policy.set, scenario.seed)
                               : policy::make_external_policy({.command = policy.exec,
                                                               .folder = policy.folder,
                                                               .timeout_s = policy.timeout_s,
                                                               .seed = scenario.seed});
  };
  std::vector<std::unique_ptr<policy::Policy>> policies;
  for (size_t k = 0; k < (scenario.quotas ? scenario.quotas->clusters.size() : 1); ++k) {
    SCALAI_ASSIGN_OR_RETURN(auto made, one());
    policies.push_back(std::move(made));
  }
  auto made =
      scenario.quotas ? policy::with_quotas(*scenario.quotas, std::move(policies)) : std::move(policies.front());
  if (scenario.estimates.none()) return made;
  return policy::with_estimates(std::move(made), estimate_factors_of(scenario));
}

absl::StatusOr<std::unique_ptr<jobs::ChangeModel>> make_changes(const ClusterScenario& scenario) {
  const ChangesChoice& changes = scenario.changes;
  if (!changes.preset.empty()) return jobs::make_preset_changes(changes.preset, scenario.fleet);
  if (changes.seconds) {
    return jobs::make_constant_changes({.change_s = *changes.seconds, .start_s = changes.start_s});
  }
  SCALAI_CHECK(scenario.configurations != nullptr && scenario.fabric != nullptr);
  jobs::PlannedOptions options{.strategy = internal::change_strategy(changes.strategy, scenario.costs),
                               .checkpoint_every_s = changes.checkpoint_every_s,
                               .checkpoint_write_s = scenario.options.checkpoints.write_s};
  return jobs::make_planned_changes(*scenario.configurations, *scenario.fabric, options);
}

}  // namespace scalai::scenario
