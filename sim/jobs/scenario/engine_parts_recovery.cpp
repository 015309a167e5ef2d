// `recovery`: one job on hosts that come and go.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/proto/scenario.pb.h"
#include "sim/jobs/recovery/designs.h"
#include "sim/jobs/scenario/internal/build_parts.h"

namespace scalai::scenario::internal {
namespace {

// Hosts alike in what counts here: number k of the job is number k of the cluster.
bool check_hosts(PartsContext& context) {
  const auto& hosts = context.parts.cluster.hosts;
  for (const cluster::Host& host : hosts) {
    if (host.gpus == hosts.front().gpus && host.gpu.name == hosts.front().gpu.name) continue;
    context.source.error("cluster", "\"recovery\" is of one job on hosts that are all alike",
                         fmt::format("there are hosts of {} {} and of {} {}", hosts.front().gpus,
                                     hosts.front().gpu.name, host.gpus, host.gpu.name));
    return false;
  }
  return true;
}

std::optional<jobs::JobModel> job_model_of(PartsContext& context) {
  const proto::Job& given = context.message.jobs(0);
  const auto model = jobs::job_model({.model = given.model(),
                                      .global_batch = given.global_batch(),
                                      .sequence = given.sequence(),
                                      .precision = given.precision(),
                                      .optimizer = given.optimizer(),
                                      .schedule = given.schedule(),
                                      .recompute = given.recompute(),
                                      .micro_batch = given.micro_batch(),
                                      .pins = given.search().pins(),
                                      .whole_batches = false});
  if (model.ok()) return *model;
  report_lines(context.source, "jobs[0]", message_of(model.status()));
  return std::nullopt;
}

// How the state moves, with the scenario's costs.
jobs::ChangeStrategy strategy_of(const PartsContext& context) {
  const std::string design = context.message.recovery().design();
  const bool restarts = design == "checkpoint-restart" || design == "spare-swap";
  return change_strategy(restarts ? "checkpoint-restart" : "reshard", context.scenario.costs);
}

// The scenario's job on the cluster's hosts: steps by the parallelizer, changes by plans.
void build_plans(PartsContext& context) {
  if (context.message.jobs_size() != 1) {
    context.source.error(
        "recovery", "without \"throughputs\" and \"costs\" the scenario needs one job whose model says what they are",
        "add jobs { name: \"llm\" model: \"llama3-70b\" global_batch: 512 }, or name tables");
    return;
  }
  auto model = job_model_of(context);
  if (!model) return;
  policy::Job job;
  job.name = context.message.jobs(0).name();
  job.type = job.name.empty() ? "job" : job.name;
  job.gpus = job.min_gpus = job.max_gpus = context.parts.cluster.device_count();
  job.batch = context.message.jobs(0).global_batch();
  context.common.notes.push_back("model: " + jobs::describe(*model));
  const bool simulated = context.message.compute() == proto::Scenario::SIMULATED;
  context.parts.models = std::make_unique<jobs::JobModels>();
  context.parts.models->add(job.type, job.batch, *std::move(model));
  context.parts.configurations =
      std::make_unique<jobs::Configurations>(context.parts.cluster, context.many.fleet, *context.parts.models,
                                             simulated ? context.parts.simulators.steps : nullptr);
  context.parts.fabric = context.parts.simulators.fabric ? context.parts.simulators.fabric(context.parts.cluster)
                                                         : jobs::make_unshared_fabric(context.parts.cluster);
  context.parts.recovery_plans =
      jobs::make_recovery_plans(*context.parts.configurations, *context.parts.fabric, strategy_of(context), job);
}

// Designs that do not say which hosts are lost (redundancy) do not move state by plans either: then spread evenly.
jobs::RecoveryQuestion question_of(const jobs::HostChange& change) {
  jobs::RecoveryQuestion question{.hosts_before = change.from,
                                  .hosts_after = change.to,
                                  .lost = change.lost_places,
                                  .from_storage = change.resumes};
  if (!question.lost.empty()) return question;
  for (int k = 0; k < change.lost; ++k) {
    question.lost.push_back(static_cast<int>(int64_t{k} * change.from / std::max(1, change.lost)));
  }
  return question;
}

class PlanAnswers {
 public:
  explicit PlanAnswers(jobs::RecoveryPlans& plans) : plans_(plans) {}

  // A change to nothing costs nothing. Where there is no plan from the survivors, all start from storage; where nothing
  // fits the hosts at all (a table of throughputs says that they train), there is no such number.
  double seconds(const jobs::HostChange& change) {
    if (change.to <= 0) return 0;
    auto question = question_of(change);
    // A job that reads all from storage keeps nothing, so which hosts are lost does not count: one plan serves all.
    if (!question.lost.empty() && !survives(change)) std::iota(question.lost.begin(), question.lost.end(), 0);
    const auto [at, fresh] = seconds_.try_emplace(std::tuple(change.from, change.to, question.lost, change.resumes),
                                                  std::numeric_limits<double>::quiet_NaN());
    if (!fresh) return at->second;
    auto cost = plans_.cost(question);
    if (!cost.ok()) cost = plans_.cost({.hosts_before = 0, .hosts_after = change.to, .lost = {}, .from_storage = true});
    if (cost.ok()) at->second = cost->seconds;
    return at->second;
  }

  // Of a change by plan, until its last transfer is over.
  double leaving_seconds(const jobs::HostChange& change) {
    const auto cost = plans_.cost(question_of(change));
    return cost.ok() ? cost->moving_s : std::numeric_limits<double>::infinity();
  }

  // Also where nothing fits what is left: the state is lost or not, whoever goes on.
  bool survives(const jobs::HostChange& change) {
    const auto question = question_of(change);
    const auto [at, fresh] = survives_.try_emplace(std::pair(change.from, question.lost), false);
    if (fresh) at->second = plans_.survives(question);
    return at->second;
  }

 private:
  jobs::RecoveryPlans& plans_;
  std::map<std::tuple<int, int, std::vector<int>, bool>, double> seconds_;
  std::map<std::pair<int, std::vector<int>>, bool> survives_;
};

// Every design may have to: a job that stood still, or whose state no host has, reads its last checkpoint.
void check_restores(PartsContext& context) {
  if (context.parts.cluster.storage_read_bytes_per_s > 0) return;
  context.source.error("recovery.design",
                       fmt::format("design \"{}\" reads checkpoints, and the cluster has no storage to say how fast",
                                   context.message.recovery().design()),
                       "add storage { read: \"10GB/s\" } to the cluster, or a table of costs to \"recovery\"");
}

void compute_from_plans(PartsContext& context, jobs::RecoveryRequest& request) {
  jobs::RecoveryPlans* plans = context.parts.recovery_plans.get();
  const double batch = static_cast<double>(context.message.jobs(0).global_batch());
  if (batch <= 0) return context.source.missing("jobs[0].global_batch", "samples a step");
  request.samples_per_step = batch;
  if (request.throughputs.empty()) {
    request.samples_per_s = [plans, batch](int hosts) {
      const double step_s = hosts > 0 ? plans->step_s(hosts) : 0;
      return step_s > 0 ? batch / step_s : 0.0;
    };
  }
  if (!request.costs.empty()) return;
  request.detect_s = change::detect_s(strategy_of(context).costs);
  const auto answers = std::make_shared<PlanAnswers>(*plans);
  request.change_s = [answers](const jobs::HostChange& change) { return answers->seconds(change); };
  request.leave_s = [answers](const jobs::HostChange& change) { return answers->leaving_seconds(change); };
  request.state_survives = [answers](const jobs::HostChange& change) { return answers->survives(change); };
}

// Each design's problems are lines about an option, or about the whole.
void report_problems(PartsContext& context, const std::string& text, const std::vector<std::string>& set) {
  const auto field_of_line = [&](const std::string& line) -> std::string {
    for (size_t i = 0; i < set.size(); ++i) {
      const std::string name = set[i].substr(0, set[i].find('='));
      const bool about = line.find("\"" + name + "\"") != std::string::npos || line.starts_with("option " + name + ":");
      if (!name.empty() && about) return fmt::format("recovery.set[{}]", i);
    }
    return "recovery";
  };
  size_t from = 0;
  while (from < text.size()) {
    const size_t end = std::min(text.find('\n', from), text.size());
    const std::string line = text.substr(from, end - from);
    if (!line.empty()) context.source.error(field_of_line(line), line);
    from = end + 1;
  }
}

std::string throughputs_of(const proto::Recovery& given, const jobs::RecoverySetup& setup) {
  if (given.throughputs().empty()) return "the parallelizer's";
  const std::string rule = setup.throughput_rule.empty() ? "" : fmt::format(" ({})", setup.throughput_rule);
  return fmt::format("table {}{}", given.throughputs(), rule);
}

}  // namespace

void build_recovery(PartsContext& context) {
  Source& source = context.source;
  if (!context.common.fleet_ok || !check_hosts(context)) return;
  const proto::Recovery& given = context.message.recovery();
  std::vector<std::string> known;
  for (const jobs::RecoveryInfo& info : jobs::recovery_designs()) known.push_back(info.name);
  if (given.design().empty())
    return source.missing("recovery.design", fmt::format("one of {}", fmt::join(known, ", ")));
  if (std::find(known.begin(), known.end(), given.design()) == known.end()) {
    return source.error_unknown("recovery.design", "recovery design", given.design(), known);
  }
  if (!context.message.has_availability()) {
    return source.missing("availability", "say which hosts come and go: a trace, or a generator");
  }
  for (const char* field : {"policy", "throughputs", "changes", "window", "estimates", "virtual_clusters", "metrics"}) {
    if (source.given(field)) source.error(field, fmt::format("\"{}\" has no meaning with \"recovery\"", field));
  }
  if (source.given("prices")) {
    source.error("prices", "\"prices\" has no meaning with \"recovery\"",
                 "all hosts cost the same all the time: say what with price_per_hour of the cluster's hosts");
  }
  const cluster::Host& host = context.parts.cluster.hosts.front();
  jobs::RecoveryRequest request{.design = given.design(),
                                .set = texts_of(given.set()),
                                .checkpoint_period = given.checkpoint_period(),
                                .checkpoint_write = given.checkpoint_write()};
  if (!given.throughputs().empty())
    request.throughputs = table_path(context.common, "recovery.throughputs", given.throughputs());
  if (!given.costs().empty()) request.costs = table_path(context.common, "recovery.costs", given.costs());
  request.availability = &context.many.availability;
  request.hosts = static_cast<int>(context.many.fleet.hosts.size());
  request.until_s = context.parts.options.until_s < policy::kNever ? context.parts.options.until_s : 0;
  request.gpus_per_host = host.gpus;
  request.usd_per_host_hour = host.price_per_hour;
  // Parcae's costs come with its model.
  const bool computed = given.design() != "proactive" && (given.throughputs().empty() || given.costs().empty());
  if (computed && given.costs().empty()) check_restores(context);
  if (computed) build_plans(context);
  if (computed && context.parts.recovery_plans) compute_from_plans(context, request);
  if (source.errors() > 0) return;
  auto setup = jobs::make_recovery(request);
  if (!setup.ok()) return report_problems(context, message_of(setup.status()), request.set);
  context.parts.recovery_setup = *std::move(setup);
  context.parts.recovery = RecoveryChoice{.throughputs = throughputs_of(given, context.parts.recovery_setup),
                                          .changes = given.design() == "proactive" ? "Parcae's constants"
                                                     : given.costs().empty()       ? "computed from plans"
                                                                                   : "table " + given.costs()};
  context.scenario.policy = PolicySpec{.name = given.design(), .set = request.set};
}

}  // namespace scalai::scenario::internal
