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
#include "ptc/run/policy/slices.h"
#include "ptc/run/scenario/strategy.h"
#include "ptc/run/scenario/trace/tables.h"
#include "sim/jobs/planned/model_throughput.h"
#include "sim/jobs/recovery/designs.h"
#include "sim/jobs/recovery/period.h"
#include "sim/jobs/scenario/internal/build_parts.h"

namespace scalai::scenario::internal {
namespace {

const std::vector<std::string> kModelOptions = {"model",     "model.",   "global-batch", "sequence",    "precision",
                                                "optimizer", "schedule", "recompute",    "micro-batch", "pins"};

constexpr double kCheckpointEvery_s = 30 * 60;  // where hosts fail and nothing is said

double share_within(PartsContext& context, SetValues& values, const std::string& name, double least, double most) {
  const double share = values.positive(name, 0);
  if (share == 0 || (share >= least && share <= most)) return share;
  context.source.error(values.path(name), fmt::format("\"{}\" is a share of what a job asks for, {} to {}; found {}",
                                                      name, least, most, values.text(name)));
  return 0;
}

// "elastic-min=0.5" and "elastic-max=2": what a job may be given, as a share of what it asks for.
void make_elastic(PartsContext& context, SetValues& values) {
  const double least = share_within(context, values, "elastic-min", 0, 1);
  const double most = share_within(context, values, "elastic-max", 1, 1e6);
  constexpr double kMostGpus = std::numeric_limits<int>::max();
  for (policy::Job& job : context.many.workload.jobs) {
    if (least > 0) job.min_gpus = std::clamp(static_cast<int>(std::ceil(job.gpus * least)), 1, job.gpus);
    if (most > 0) job.max_gpus = std::max(job.gpus, static_cast<int>(std::min(job.gpus * most, kMostGpus)));
  }
}

// A number that later is one of 32 bits.
int small_count(PartsContext& context, SetValues& values, const std::string& name) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  const int64_t count = values.count(name, 0);
  if (count >= 0 && count <= kMost) return static_cast<int>(count);
  context.source.error(values.path(name), fmt::format("\"{}\" is at most {}, found {}", name, kMost, count));
  return 0;
}

// Models by type: those that the options name, else catalogue models of that name.
void build_models(PartsContext& context, SetValues& values) {
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
  for (const policy::Job& job : context.many.workload.jobs) {
    const std::string own = values.text("model." + job.type, common.model);
    if (own.empty()) continue;
    jobs::JobModelSpec spec = common;
    spec.model = own;
    by_type.emplace(job.type, std::move(spec));
  }
  common.model.clear();
  auto models = jobs::JobModels::of(context.many.workload, common, by_type);
  if (!models.ok()) {
    report_lines(context.source, "throughputs", message_of(models.status()),
                 "set: \"model=llama3-8b\" says what all jobs train, \"model.TYPE=NAME\" what those of one type do");
    return;
  }
  context.parts.models = std::make_unique<jobs::JobModels>(*std::move(models));
  context.parts.configurations = std::make_unique<jobs::Configurations>(
      context.parts.cluster, context.many.fleet, *context.parts.models,
      context.message.throughputs().source() == "simulated" ? context.parts.simulators.steps : nullptr);
  context.common.notes.push_back("models: " + context.parts.models->description());
}

// What a trace tells is a run time: a job's work is what it does in that time on what it asked for, on the type where
// it is fastest.
void set_model_work(PartsContext& context) {
  std::map<std::pair<std::string, int>, int> nowhere;  // type and GPUs → jobs
  for (policy::Job& job : context.many.workload.jobs) {
    double fastest = 0;
    bool fits_fleet = false;
    for (size_t t = 0; t < context.many.fleet.types.size(); ++t) {
      const auto type = policy::GpuType(static_cast<int64_t>(t));
      if (job.gpus > context.many.fleet.gpus(type)) continue;
      fits_fleet = true;
      fastest = std::max(fastest, context.parts.throughput->rate(job, type, job.gpus, 0).per_s);
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

void build_model_throughput(PartsContext& context, SetValues& values) {
  build_models(context, values);
  if (!context.parts.models) return;
  context.parts.throughput = jobs::make_model_throughput(*context.parts.configurations);
  set_model_work(context);
}

void build_pollux(PartsContext& context, SetValues& values) {
  const std::string& policy = context.message.policy().name();
  const std::string mode = values.text("batch", policy == "pollux" || policy == "sia" ? "adaptive" : "fixed");
  if (mode != "adaptive" && mode != "fixed") {
    context.source.error(values.path("batch"), fmt::format("\"batch\" is adaptive or fixed, found \"{}\"", mode));
    return;
  }
  const auto batch = mode == "adaptive" ? policy::BatchMode::kAdaptive : policy::BatchMode::kFixed;
  const std::string folder = table_path(context.common, "throughputs.file", context.message.throughputs().file());
  if (folder.empty()) return;
  const absl::Status set = policy::pollux_set_work(folder, batch, &context.many.workload);
  if (!set.ok()) return report_lines(context.source, "throughputs.file", message_of(set));
  auto source = policy::pollux_throughput(folder, context.many.fleet, context.many.workload, batch);
  if (source.ok())
    context.parts.throughput = *std::move(source);
  else
    report_lines(context.source, "throughputs.file", message_of(source.status()));
}

void build_table(PartsContext& context, trace::Beyond beyond) {
  const proto::Throughputs& given = context.message.throughputs();
  if (given.file().empty()) return context.source.missing("throughputs.file", "a table is a file or a folder");
  const std::string file = table_path(context.common, "throughputs.file", given.file());
  if (file.empty()) return;
  const std::string format = given.format().empty() ? "scalai" : given.format();
  auto table = trace::table_throughput(format, file, context.many.fleet, context.many.workload, beyond);
  if (table.ok())
    context.parts.throughput = *std::move(table);
  else
    report_lines(context.source, "throughputs.file", message_of(table.status()));
}

// A table says how fast whole GPUs are; a slice has its share of one.
class SlicedTable final : public policy::Throughput {
 public:
  explicit SlicedTable(std::unique_ptr<policy::Throughput> table) : table_(std::move(table)) {}

  policy::Rate rate(const policy::Job& job, policy::GpuType type, int slices, double work_done) const override {
    const int gpus = std::max(1, slices / policy::kSlicesOfGpu);
    policy::Rate rate = table_->rate(whole(job), type, gpus, work_done);
    rate.per_s *= static_cast<double>(slices) / (gpus * policy::kSlicesOfGpu);
    return rate;
  }
  policy::Rate placed_rate(const policy::Job& job, const policy::Placement& placement,
                           double work_done) const override {
    if (job.slices > 0) return rate(job, placement.type, placement.gpus(), work_done);
    policy::Placement gpus{.type = placement.type, .hosts = placement.hosts};
    for (policy::HostShare& share : gpus.hosts) share.gpus /= policy::kSlicesOfGpu;
    return table_->placed_rate(whole(job), gpus, work_done);
  }
  std::string description() const override {
    return table_->description() + "; a part of a GPU: its compute slices, of 7";
  }

 private:
  static policy::Job whole(policy::Job job) {
    job.per_gpu = 1;
    job.gpus = std::max(1, job.gpus / policy::kSlicesOfGpu);
    return job;
  }

  std::unique_ptr<policy::Throughput> table_;
};

bool check_source(PartsContext& context, const std::string& name) {
  const std::vector<std::string> known = {"table", "duration", "analytic", "simulated"};
  if (std::find(known.begin(), known.end(), name) != known.end()) return true;
  context.source.error_unknown("throughputs.source", "source of throughputs", name, known);
  return false;
}

void check_fields(PartsContext& context, const std::string& name, bool pollux) {
  const auto no = [&](const std::string& field, bool right) {
    if (context.source.given("throughputs." + field) && !right) {
      context.source.error("throughputs." + field, fmt::format("\"{}\" has no meaning for source \"{}\"", field, name));
    }
  };
  no("file", name == "table");
  no("format", name == "table");
  no("beyond", (name == "table" && !pollux) || name == "duration");
}

// One period for all jobs, by the losses of the whole cluster: a job on few of its hosts loses work less often and
// would do better with a longer one.
double young_daly(PartsContext& context, SetValues& values, double write_s) {
  const double until_s = context.parts.options.until_s;
  const double mtbf_s =
      jobs::mean_time_between_losses_s(context.many.availability, until_s < policy::kNever ? until_s : 0);
  if (mtbf_s < policy::kNever && write_s > 0) return jobs::young_daly_period_s(write_s, mtbf_s);
  context.source.error(values.path("checkpoint-every"),
                       "Young and Daly's period needs hosts that fail (\"availability\") and \"checkpoint-write\"",
                       "or write a time, like checkpoint-every=30min");
  return 0;
}

void build_checkpoints(PartsContext& context, SetValues& values) {
  jobs::Checkpoints& checkpoints = context.parts.options.checkpoints;
  checkpoints.write_s = values.seconds("checkpoint-write", 0);
  checkpoints.every_s = values.text("checkpoint-every") == "young-daly"
                            ? young_daly(context, values, checkpoints.write_s)
                            : values.seconds("checkpoint-every", 0);
}

// What a run assumes of hosts that fail, where it says nothing. Plans know which state is left and which is not.
void assume_lost_work(PartsContext& context, const SetValues& values) {
  const auto loses = [](const policy::FleetEvent& event) {
    return event.kind == policy::FleetEvent::Kind::kFailed || event.kind == policy::FleetEvent::Kind::kTaken;
  };
  const auto& events = context.many.availability.events;
  if (values.has("checkpoint-every") || std::none_of(events.begin(), events.end(), loses)) return;
  if (!context.parts.changes.strategy.empty()) {
    context.common.notes.emplace_back(
        "assumed: no checkpoints, so a job of whose state no host has all any more starts again; in changes, set: "
        "\"checkpoint-every=30min\" lets it go on from storage");
    return;
  }
  context.parts.options.checkpoints.every_s = kCheckpointEvery_s;
  context.common.notes.emplace_back(
      "assumed: a job whose host fails goes on from a checkpoint, which it writes after every 30 min of training; in "
      "changes, set: \"checkpoint-every=TIME\" says another time, 0s that no work is lost");
}

// Plans that read checkpoints need the rate of the storage.
void check_storage(PartsContext& context, const SetValues& values) {
  if (context.parts.cluster.storage_read_bytes_per_s > 0) return;
  const std::string hint = "add storage { read: \"10GB/s\" } to the cluster, or say what changes cost with \"seconds\"";
  const auto strategy = find_strategy(context.parts.changes.strategy, {});
  if (strategy.ok() && strategy->from_checkpoint) {
    context.source.error("changes.strategy",
                         fmt::format("strategy \"{}\" needs a cluster with \"storage\"", strategy->name), hint);
  } else if (context.parts.changes.checkpoint_every_s > 0) {
    context.source.error(values.path("checkpoint-every"), "jobs write checkpoints, and the cluster has no storage",
                         hint);
  }
}

}  // namespace

void build_throughputs(PartsContext& context) {
  if (!context.common.fleet_ok || !context.common.workload_ok) return;
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
    context.parts.throughput = trace::duration_throughput(*beyond);
  }
}

jobs::ChangeStrategy change_strategy(const std::string& name, const std::vector<CostOverride>& overrides) {
  const Strategy strategy = find_strategy(name, overrides).value();
  return {.planner = strategy.planner,
          .placement = strategy.placement,
          .from_checkpoint = strategy.from_checkpoint,
          .costs = strategy.costs};
}

void build_changes(PartsContext& context) {
  Source& source = context.source;
  const proto::Changes& given = context.message.changes();
  ChangesChoice& changes = context.parts.changes;
  const bool modelled = context.parts.configurations != nullptr;
  SetValues values(source, "changes", texts_of(given.set()),
                   {"start", "checkpoint-every", "checkpoint-write", "save-first"});
  build_checkpoints(context, values);
  changes.start_s = values.seconds("start", 0);
  changes.save_first = values.flag("save-first", true);
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
  if (!changes.preset.empty() && !jobs::make_preset_changes(changes.preset, context.many.fleet).ok()) {
    source.error_unknown("changes.preset", "preset", changes.preset, jobs::change_preset_names());
  }
  if (values.has("start") && !changes.seconds) source.error(values.path("start"), "\"start\" goes with \"seconds\"");
  assume_lost_work(context, values);
  if (changes.strategy.empty()) return;
  const std::vector<std::string> known = strategy_names();
  if (std::find(known.begin(), known.end(), changes.strategy) == known.end()) {
    source.error_unknown("changes.strategy", "strategy", changes.strategy, known);
  } else if (!modelled && context.common.workload_ok && context.message.throughputs().source() != "analytic" &&
             context.message.throughputs().source() != "simulated") {
    source.error("changes.strategy", "plans need jobs with a model",
                 "add throughputs { source: \"analytic\" set: \"model=llama3-8b\" }, or give seconds");
  }
  // Planned changes know themselves what is run again (planned.h).
  changes.checkpoint_every_s = std::exchange(context.parts.options.checkpoints.every_s, 0);
  check_storage(context, values);
  if (modelled) {
    context.parts.fabric = context.parts.simulators.fabric ? context.parts.simulators.fabric(context.parts.cluster)
                                                           : jobs::make_unshared_fabric(context.parts.cluster);
  }
}

}  // namespace scalai::scenario::internal

namespace scalai::scenario {

std::vector<Engine::Design> EngineParts::recovery_designs() const {
  std::vector<Design> designs;
  for (const jobs::RecoveryInfo& info : jobs::recovery_designs()) {
    designs.push_back({info.name, {}});
    for (const trace::TraceOption& option : info.options) designs.back().parameters.push_back(option.name);
  }
  return designs;
}

void EngineParts::begin(const internal::Context& context, const Scenario& scenario) {
  options.until_s = scenario.until_s.value_or(policy::kNever);
  options.window = scenario.many_jobs->window;
  if (context.cluster) cluster = *context.cluster;
}

void EngineParts::build_recovery(internal::Context& context, Scenario& scenario) {
  begin(context, scenario);
  internal::PartsContext all{context.message, context.source, context, scenario, *scenario.many_jobs, *this};
  internal::build_recovery(all);
}

void EngineParts::build_throughputs(internal::Context& context, Scenario& scenario) {
  begin(context, scenario);
  internal::PartsContext all{context.message, context.source, context, scenario, *scenario.many_jobs, *this};
  internal::build_throughputs(all);
}

void EngineParts::build_changes(internal::Context& context, Scenario& scenario) {
  internal::PartsContext all{context.message, context.source, context, scenario, *scenario.many_jobs, *this};
  internal::build_metrics(all);
  internal::build_changes(all);
  if (!internal::build_slices(context, scenario) || !throughput) return;
  const proto::Throughputs& given = context.message.throughputs();
  const bool table = given.source().empty() ? !given.file().empty() : given.source() == "table";
  if (table) throughput = std::make_unique<internal::SlicedTable>(std::move(throughput));
}

std::vector<double> estimate_factors_of(const Scenario& scenario) {
  const ManyJobs& many = *scenario.many_jobs;
  return policy::estimate_factors(many.estimates, scenario.seed, many.workload.jobs.size());
}

absl::StatusOr<std::unique_ptr<policy::Policy>> make_policy(const Scenario& scenario) {
  const ManyJobs& many = *scenario.many_jobs;
  const PolicySpec& policy = *scenario.policy;
  const auto one = [&] {
    return policy.exec.empty() ? policy::make_policy(policy.name, policy.set, scenario.seed)
                               : policy::make_external_policy({.command = policy.exec,
                                                               .folder = policy.folder,
                                                               .timeout_s = policy.timeout_s,
                                                               .seed = scenario.seed});
  };
  std::vector<std::unique_ptr<policy::Policy>> policies;
  for (size_t k = 0; k < (many.quotas ? many.quotas->clusters.size() : 1); ++k) {
    SCALAI_ASSIGN_OR_RETURN(auto made, one());
    policies.push_back(std::move(made));
  }
  auto made = many.quotas ? policy::with_quotas(*many.quotas, std::move(policies)) : std::move(policies.front());
  if (many.estimates.none()) return made;
  return policy::with_estimates(std::move(made), estimate_factors_of(scenario));
}

absl::StatusOr<std::unique_ptr<jobs::ChangeModel>> make_changes(const Scenario& scenario, const EngineParts& parts) {
  const ChangesChoice& changes = parts.changes;
  if (!changes.preset.empty()) return jobs::make_preset_changes(changes.preset, scenario.many_jobs->fleet);
  if (changes.seconds) {
    return jobs::make_constant_changes({.change_s = *changes.seconds, .start_s = changes.start_s});
  }
  SCALAI_CHECK(parts.configurations != nullptr && parts.fabric != nullptr);
  jobs::PlannedOptions options{.strategy = internal::change_strategy(changes.strategy, scenario.costs),
                               .checkpoint_every_s = changes.checkpoint_every_s,
                               .checkpoint_write_s = parts.options.checkpoints.write_s};
  options.strategy.save_first = changes.save_first;
  return jobs::make_planned_changes(*parts.configurations, *parts.fabric, options);
}

}  // namespace scalai::scenario
