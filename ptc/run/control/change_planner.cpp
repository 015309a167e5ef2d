#include "ptc/run/control/internal/change_planner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/plan/interpreter.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/planner.h"
#include "ptc/run/control/agenda.h"
#include "ptc/run/scenario/job_state.h"

namespace scalai::control {

ChangePlanner::ChangePlanner(const scenario::Scenario& scenario, const scenario::Strategy& strategy,
                             const Condition& condition, bool check_plans)
    : scenario_(scenario),
      strategy_(strategy),
      condition_(condition),
      check_plans_(check_plans),
      departure_(condition, strategy.costs.stores) {}

bool ChangePlanner::saves_first(const Job& job, bool waits) const {
  const scenario::CheckpointPolicy& checkpoint = job.spec->checkpoint;
  const auto taken = [&](DeviceId device) { return condition_.draining(device); };
  const auto lost = [&](DeviceId device) { return job.state.gone.contains(device); };
  if (checkpoint.every_steps == 0 || !checkpoint.before_change) return false;
  if (!job.moves() || condition_.any_cut_off() || std::any_of(job.devices.begin(), job.devices.end(), lost))
    return false;
  return strategy_.from_checkpoint || (waits && std::any_of(job.devices.begin(), job.devices.end(), taken));
}

std::vector<Source> ChangePlanner::sources(const Job& job) const {
  std::vector<Source> list;
  if (!strategy_.from_checkpoint) {
    list.push_back({.holding = job.state, .residency = {.lost = job.state.gone}});
    if (job.copies.redundant) {
      const Holding& copy = *job.copies.redundant;
      const auto extra = list_of(copy.copies);
      list.push_back(
          {.holding = copy, .residency = {.lost = copy.gone, .extra = {extra.begin(), extra.end()}}, .restore = true});
    }
  }
  if (job.copies.checkpoint) {
    const Holding& copy = *job.copies.checkpoint;
    const bool host_copies = job.spec->checkpoint.host_memory_copy && !strategy_.from_checkpoint;
    collection::Residency residency{.lost = copy.gone, .storage = true};
    if (!host_copies) {
      const std::vector<DeviceId>& all = copy.collection->device_of_rank;
      residency.lost.insert(all.begin(), all.end());
    }
    list.push_back({.holding = copy, .residency = std::move(residency), .restore = host_copies});
  }
  for (Source& source : list) leave_out_of_reach(job, source);
  std::stable_sort(list.begin(), list.end(),
                   [](const Source& a, const Source& b) { return a.holding.step > b.holding.step; });
  return with_and_without_leaving(std::move(list));
}

std::vector<Source> ChangePlanner::with_and_without_leaving(std::vector<Source> list) const {
  std::vector<Source> all;
  for (Source& source : list) {
    std::set<DeviceId> leaving = condition_.leaving(source.holding.collection->device_of_rank);
    std::erase_if(leaving, [&](DeviceId device) { return source.residency.lost.contains(device); });
    std::erase_if(source.residency.extra,
                  [&](const collection::ExtraHolder& extra) { return condition_.memory_leaves(extra.host); });
    if (!leaving.empty()) {
      all.push_back(source);
      all.back().leaving = leaving;
      source.residency.lost.insert(leaving.begin(), leaving.end());
    }
    all.push_back(std::move(source));
  }
  return all;
}

double ChangePlanner::seconds_to_leave(const Job& job, const Source& source, const PlannedChange& change) const {
  if (source.leaving.empty()) return 0;
  const Execute execute = execution(job, source, change);
  return departure_.seconds(change::stages_of(change_of(execute, scenario_.cluster)), source.leaving);
}

bool ChangePlanner::in_time(const Job& job, const Source& source, const PlannedChange& change, double now_s) const {
  return source.leaving.empty() ||
         now_s + seconds_to_leave(job, source, change) <= condition_.deadline_of(source.leaving);
}

// What is cut off is not lost, but nobody can read it now.
void ChangePlanner::leave_out_of_reach(const Job& job, Source& source) const {
  if (!condition_.any_cut_off()) return;
  const int home = condition_.home_of(own_devices(job));
  for (const DeviceId device : source.holding.collection->device_of_rank)
    if (!condition_.on(home, device)) source.residency.lost.insert(device);
  std::erase_if(source.residency.extra,
                [&](const collection::ExtraHolder& extra) { return !condition_.on(home, extra.host); });
  source.residency.storage = source.residency.storage && condition_.reaches_storage(home);
}

std::optional<double> ChangePlanner::seconds_to(const Job& job, const Target& target) const {
  const step::Candidate candidate{
      .config = target.choice->config,
      .training = target.choice->training ? *target.choice->training : job.spec->training,
      .time = {.step_s = target.choice->step_s > 0
                             ? target.choice->step_s
                             : priced(job, *target.choice, hardware_on(job, *target.choice, target.devices)).step_s}};
  const std::optional<step::Change> change = pricer(job, target.devices)(candidate);
  return change ? std::optional(change->reconfiguration_s) : std::nullopt;
}

std::vector<DeviceId> ChangePlanner::place_ranks(const Job& job, const Source& source, const collection::Collection& to,
                                                 const scenario::ParallelChoice& choice,
                                                 const std::vector<DeviceId>& candidates) const {
  const std::vector<DeviceId>& in_order = to.device_of_rank;
  if (!strategy_.placement.places()) return in_order;
  const std::vector<DeviceId> placed = plan::place({.from = *source.holding.collection,
                                                    .to = to,
                                                    .cluster = scenario_.cluster,
                                                    .residency = source.residency,
                                                    .options = strategy_.planner},
                                                   strategy_.placement, job.spec->choose ? in_order : candidates);
  if (!job.spec->choose || placed == in_order) return placed;
  const double priced_s = priced(job, choice, hardware_on(job, choice, in_order)).step_s;
  const double placed_s = priced(job, choice, hardware_on(job, choice, placed)).step_s;
  constexpr double kEqual = 1e-9;
  return placed_s > priced_s * (1 + kEqual) ? in_order : placed;
}

absl::StatusOr<plan::Plan> ChangePlanner::make_plan(const Source& source, const collection::Collection& to) const {
  plan::PlannerOptions options = strategy_.planner;
  options.round_bytes = scenario_.round_bytes;
  // A rollback finds devices with state that is of no use; what it brings comes beside that.
  if (source.holding.snapshot == kLiveState && caps_memory()) options.memory_cap = scenario_.memory_cap;
  auto made = plan::make_plan({.from = *source.holding.collection,
                               .to = to,
                               .cluster = scenario_.cluster,
                               .residency = source.residency,
                               .options = options,
                               .leaving = source.leaving});
  if (made.ok() && check_plans_) {
    const absl::Status verdict = plan::interpret(
        *made,
        {.from = *source.holding.collection, .to = to, .cluster = scenario_.cluster, .residency = source.residency});
    SCALAI_CHECK(verdict.ok(), message_of(verdict));
  }
  return made;
}

absl::StatusOr<PlannedChange> ChangePlanner::plan_to(const Job& job, const Source& source, collection::Collection to,
                                                     const scenario::ParallelChoice& choice,
                                                     const std::vector<DeviceId>& candidates) const {
  to.device_of_rank = place_ranks(job, source, to, choice, candidates);
  SCALAI_ASSIGN_OR_RETURN(plan::Plan plan, make_plan(source, to));
  return PlannedChange{std::make_shared<const collection::Collection>(std::move(to)), std::move(plan)};
}

Execute ChangePlanner::execution(const Job& job, const Source& source, const PlannedChange& change) const {
  Execute execute{.job = job.index,
                  .epoch = change.to->epoch,
                  .reconfiguration = job.underway ? job.underway->record.index : 0,
                  .plan = change.plan,
                  .from = source.holding.collection,
                  .to = change.to,
                  .gone = source.residency.lost,
                  .extra = source.residency.extra,
                  .snapshot = source.holding.snapshot,
                  .step = source.holding.step,
                  .restore = source.restore,
                  .costs = strategy_.costs,
                  .initial_copies = job.initial_copies()};
  if (strategy_.staged()) {
    const HostId hub = strategy_.planner.hub;
    execute.hub = hub;
    execute.upload = true;
    execute.load = load_flows(*change.to, scenario_.cluster, change::target_hub(hub, *change.to, scenario_.cluster));
    execute.stage = staging_flows(source);
  }
  return execute;
}

// The flows that stage a copy of the job's state, of a strategy whose state goes by way of host memory.
std::vector<BulkFlow> ChangePlanner::staging_flows(const Source& source) const {
  // A snapshot lies in host memory or storage already.
  if (!strategy_.staged() || source.residency.storage || source.restore) return {};
  const bool every_replica = strategy_.planner.sources != plan::SourceRule::kFirstReplica;
  return stage_flows(*source.holding.collection, source.residency.lost, scenario_.cluster, strategy_.planner.hub,
                     every_replica);
}

// What no plan undercuts: of a source that is nowhere but in storage all the state is read from there once.
double ChangePlanner::reading_seconds(const Job& job, const Source& source) const {
  const std::vector<DeviceId>& held = source.holding.collection->device_of_rank;
  const bool elsewhere =
      !source.residency.storage || !source.residency.extra.empty() ||
      std::any_of(held.begin(), held.end(), [&](DeviceId device) { return source.residency.lost.count(device) == 0; });
  return elsewhere ? 0 : storage_seconds(job, scenario_.cluster.storage_read_bytes_per_s);
}

// All the state once.
double ChangePlanner::storage_seconds(const Job& job, double bytes_per_s) const {
  if (bytes_per_s <= 0) return 0;
  return static_cast<double>(scenario::state_bytes(*job.spec)) / bytes_per_s * job.spec->state_ratio;
}

// The change that the runtimes would play (ptc/cost/change), and the steps that a rollback has run again. A narrower
// model moves fewer bytes, but the choice is the real one's. `whole` is the first source that has all the state, once
// that is known: it does not depend on the candidate. Skips candidates whose fixed costs alone exceed the horizon; they
// are never planned.
std::optional<step::Change> ChangePlanner::change_to(const Job& job, const std::vector<DeviceId>& usable,
                                                     const std::vector<Staged>& staged,
                                                     const step::Candidate& candidate, size_t& whole) const {
  if (whole < staged.size()) {
    const double least_s = least_change_s() + reading_seconds(job, staged[whole].source);
    if (least_s >= job.spec->choose->horizon_s) return step::Change{.reconfiguration_s = least_s};
  }
  auto built = scenario::collection_of(*job.spec, candidate.config,
                                       step::devices_for(candidate.config, usable, scenario_.cluster,
                                                         candidate.training.precision.math, condition_.speed()));
  if (!built.ok()) return std::nullopt;
  const scenario::ParallelChoice choice{.config = candidate.config, .training = candidate.training};
  bool all_planned = true;
  for (size_t i = whole < staged.size() ? whole : 0; i < staged.size(); ++i) {
    const auto& [source, staging, written_s] = staged[i];
    collection::Collection to = *built;
    to.device_of_rank = place_ranks(job, source, to, choice, to.device_of_rank);
    const auto made = make_plan(source, to);
    all_planned = all_planned && made.ok();
    if (!made.ok() || !made->feasible()) continue;
    if (all_planned) whole = i;
    const plan::Plan& plan = *made;
    const HostId hub = change::target_hub(strategy_.planner.hub, to, scenario_.cluster);
    std::vector<BulkFlow> loading;
    if (strategy_.staged()) loading = load_flows(to, scenario_.cluster, hub);
    const change::Change change{
        .plan = plan,
        .cluster = scenario_.cluster,
        .costs = strategy_.costs,
        .groups = change::groups_of(to, scenario_.cluster, source.holding.collection.get(), source.residency.lost),
        .stage = staging,
        .load = loading,
        .upload = strategy_.staged(),
        .from = source.holding.collection.get(),
        .to = &to,
        .hub = hub,
        .restore = source.restore};
    const double rerun_s = static_cast<double>(job.state.step - source.holding.step) * candidate.time.step_s;
    const double planned_s = change::estimate(change, job.spec->state_ratio).total();
    return step::Change{.reconfiguration_s = written_s + planned_s + rerun_s,
                        .bytes_between_hosts = plan.bytes().cross_host,
                        .bytes_moved = plan.bytes().moved() + plan.bytes().from_storage};
  }
  return std::nullopt;
}

scenario::Chooser::Change ChangePlanner::pricer(const Job& job, const std::vector<DeviceId>& usable) const {
  std::vector<Staged> staged;
  const bool saved = job.copies.checkpoint && job.copies.checkpoint->step == job.state.step;
  if (saves_first(job) && !saved) {  // what it would write now
    Source source{.holding = job.state, .residency = {.storage = true}};
    const std::vector<DeviceId>& held = job.state.collection->device_of_rank;
    source.residency.lost.insert(held.begin(), held.end());
    staged.push_back({source, {}, storage_seconds(job, scenario_.cluster.storage_write_bytes_per_s)});
  }
  for (const Source& source : sources(job)) staged.push_back({source, staging_flows(source)});
  const size_t unknown = staged.size();
  return [this, &job, &usable, staged = std::move(staged), whole = unknown](const step::Candidate& candidate) mutable {
    return change_to(job, usable, staged, candidate, whole);
  };
}

step::StepTime priced(const Job& job, const scenario::ParallelChoice& choice, const step::Hardware& hardware) {
  const step::Training& training = choice.training ? *choice.training : job.spec->training;
  return step::step_time({job.spec->shape, choice.config, training}, hardware);
}

step::Hardware ChangePlanner::hardware_on(const Job& job, const scenario::ParallelChoice& choice,
                                          const std::vector<DeviceId>& devices) const {
  return step::hardware_of(scenario_.cluster, choice.config, devices, condition_.speed(),
                           job.spec->training.precision.math);
}

}  // namespace scalai::control
