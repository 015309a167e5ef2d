#include "ptc/run/scenario/strategy.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/plan/bounds.h"
#include "ptc/run/scenario/job_state.h"

namespace scalai::scenario {
namespace {

constexpr double kByStack = -1;
// Tenplex's in-memory store over HTTP, as fitted on its published transformations (results/tenplex): 12 and 4 of its
// hosts' 204.8 GB/s. Requests are answered under one lock: more cores do not answer faster.
constexpr change::StoreShares kStores = {.serve = 12 / 204.8, .ingest = 4 / 204.8};
constexpr plan::MessageCosts kRequests = {.box_s = 0.5e-3, .peer_s = 0};
constexpr double kPlan = 0.1;
constexpr double kVerifyRate = 50e9;

std::vector<Strategy> make_strategies() {
  using plan::SourceRule;
  const Costs in_place = {.plan_s = kPlan,
                          .verify_bytes_per_s = kVerifyRate,
                          .transfer_start_s = 0.001,
                          .messages = plan::kMeasuredMessages};
  const Costs restarting = {.plan_s = kPlan, .restart_s = kByStack};
  const Costs staging = {.plan_s = kPlan, .restart_s = kByStack, .messages = kRequests, .stores = kStores};
  const plan::PlannerOptions tenplex = {.name = "tenplex", .in_place = false, .sources = SourceRule::kFirstReplica};
  return {
      {.name = "reshard",
       .summary = "in place: ranks go where their state is, each device fetches what it lacks from the nearest replica",
       .planner = {.name = "reshard"},
       .placement = {.rule = plan::PlacementRule::kHosts},
       .costs = in_place},
      {.name = "tenplex",
       .summary = "as released: stage in host memory, pull everything from data-parallel rank 0, restart, load",
       .planner = tenplex,
       .costs = staging},
      {.name = "central",
       .summary = "as tenplex, with every store and transformer on host 0",
       .planner = {.name = "central", .in_place = false, .sources = SourceRule::kFirstReplica, .hub = HostId(0)},
       .costs = staging},
      {.name = "dp-only",
       .summary = "as tenplex, but only the number of data-parallel replicas changes; waits when one does not fit",
       .planner = tenplex,
       .data_parallel_only = true,
       .costs = staging},
      {.name = "checkpoint-restart",
       .summary = "every change restarts from storage: a planned one saves first, a failure re-runs lost steps",
       .planner = {.name = "checkpoint-restart", .sources = SourceRule::kStorage},
       .from_checkpoint = true,
       .costs = restarting},
      {.name = "full-migration",
       .summary = "every device's whole state moves through host memory, whatever its target already holds",
       .planner = {.name = "full-migration", .in_place = false},
       .costs = staging},
  };
}

void apply(const CostOverride& change, Costs& costs) {
  costs.stack = change.stack.value_or(costs.stack);
  costs.detect_s = change.detect_s.value_or(costs.detect_s);
  costs.hang_s = change.hang_s.value_or(costs.hang_s);
  costs.plan_s = change.plan_s.value_or(costs.plan_s);
  costs.restart_s = change.restart_s.value_or(costs.restart_s);
  costs.allocate_bytes_per_s = change.allocate_bytes_per_s.value_or(costs.allocate_bytes_per_s);
  costs.verify_bytes_per_s = change.verify_bytes_per_s.value_or(costs.verify_bytes_per_s);
  costs.communicator_s = change.communicator_s.value_or(costs.communicator_s);
  costs.compile_s = change.compile_s.value_or(costs.compile_s);
  costs.transfer_start_s = change.transfer_start_s.value_or(costs.transfer_start_s);
  costs.messages.box_s = change.box_s.value_or(costs.messages.box_s);
  costs.messages.peer_s = change.peer_s.value_or(costs.messages.peer_s);
}

}  // namespace

const std::vector<Strategy>& strategies() {
  static const std::vector<Strategy> kStrategies = make_strategies();
  return kStrategies;
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const Strategy& strategy : strategies()) names.push_back(strategy.name);
  return names;
}

absl::StatusOr<Strategy> find_strategy(std::string_view name, const std::vector<CostOverride>& overrides) {
  for (const Strategy& candidate : strategies()) {
    if (candidate.name != name) continue;
    Strategy strategy = candidate;
    for (const bool named : {false, true}) {
      for (const CostOverride& change : overrides) {
        if (named ? change.strategy == name : change.strategy.empty()) apply(change, strategy.costs);
      }
    }
    return strategy;
  }
  const std::string near = closest(name, strategy_names());
  return invalid(fmt::format("unknown strategy \"{}\"{} (one of: {})", name,
                             near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near),
                             fmt::join(strategy_names(), ", ")));
}

std::vector<UnmetNeed> unmet_needs(const Strategy& strategy, const cluster::Cluster* cluster,
                                   const std::vector<JobSpec>& jobs) {
  std::vector<UnmetNeed> unmet;
  if (!strategy.from_checkpoint) return unmet;
  // Restarting from a checkpoint needs one, and a place to keep it.
  if (cluster != nullptr && cluster->storage_read_bytes_per_s == 0) {
    unmet.push_back({.problem = fmt::format("strategy \"{}\" needs a cluster with \"storage\"", strategy.name),
                     .hint = "add storage { read: \"10GB/s\" } to the cluster"});
  }
  for (size_t j = 0; j < jobs.size(); ++j) {
    if (jobs[j].checkpoint.every_steps > 0) continue;
    unmet.push_back({.job = static_cast<int>(j),
                     .problem = fmt::format("job \"{}\" writes no checkpoints to restart from", jobs[j].name),
                     .hint = "add checkpoint { every_steps: 100 }"});
  }
  return unmet;
}

namespace {

bool loses_devices(const ScenarioEvent& event) {
  const auto* const fail = std::get_if<Fail>(&event.what);
  return fail != nullptr && !fail->devices.empty();
}

// "" = the state survives the loss of a host, or a checkpoint or a copy does. Where no devices are named, the job is
// taken to begin on the first ones.
std::string single_copy_warning(const JobSpec& job, const cluster::Cluster& cluster) {
  if (job.checkpoint.every_steps > 0 || job.redundancy.copies > 0 || job.configs.empty()) return "";
  const auto start = std::find_if(job.configs.begin(), job.configs.end(), [&](const ParallelChoice& choice) {
    return job.choose || choice.config.world() == job.gpus;
  });
  if (start == job.configs.end()) return "";
  std::vector<DeviceId> devices = job.devices;
  for (int i = 0; job.devices.empty() && i < start->config.world(); ++i) devices.emplace_back(i);
  devices.resize(std::min(devices.size(), static_cast<size_t>(start->config.world())));
  const absl::StatusOr<collection::Collection> state = collection_of(job, start->config, std::move(devices));
  if (!state.ok() || plan::survives_host_losses(*state, cluster) > 0) return "";
  const bool sharded = job.choose && start->config.zero > 0;
  return fmt::format(
      "job {}: the loss of one host may end it: under {} some of its state is on one host only, and there is neither "
      "checkpoint nor redundancy (add redundancy {{ copies: 1 }} or checkpoint {{ every_steps: 100 }}{})",
      job.name, collection::canonical(start->config),
      sharded ? "; search { pins: \"zero0\" } keeps all state on each replica" : "");
}

}  // namespace

std::vector<std::string> warnings_of(const Strategy& strategy, const Scenario& scenario) {
  std::vector<std::string> warnings;
  const bool losses = std::any_of(scenario.events.begin(), scenario.events.end(), loses_devices);
  for (const JobSpec& job : scenario.jobs) {
    std::string warning = losses ? single_copy_warning(job, scenario.cluster) : "";
    if (!warning.empty()) warnings.push_back(std::move(warning));
  }
  for (const JobSpec& job : scenario.jobs) {
    if (!strategy.data_parallel_only || job.configs.empty()) continue;
    const collection::ParallelConfig& first = job.configs.front().config;
    if (first.dp > 1) continue;
    const bool grows = job.choose || std::any_of(job.configs.begin(), job.configs.end(), [&](const auto& other) {
                         collection::ParallelConfig same = other.config;
                         same.dp = first.dp;
                         return other.config.dp > first.dp && same == first;
                       });
    warnings.push_back(
        fmt::format("strategy {}: layout {} of job {} has dp 1: there is nothing to shrink{}, and a lost "
                    "GPU makes it wait",
                    strategy.name, collection::canonical(first), job.name, grows ? "" : " or grow"));
  }
  return warnings;
}

}  // namespace scalai::scenario
