#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/collection/megatron.h"
#include "ptc/control/internal/control_impl.h"
#include "ptc/parallel/step_time.h"

namespace scalai::control {
namespace {

// Of the spec, which outlives everything here.
std::shared_ptr<const ParallelChoice> not_owned(const ParallelChoice& choice) {
  return {std::shared_ptr<const void>(), &choice};
}

bool all_in(const std::vector<DeviceId>& some, const std::vector<DeviceId>& devices) {
  return std::all_of(some.begin(), some.end(), [&](DeviceId device) {
    return std::find(devices.begin(), devices.end(), device) != devices.end();
  });
}

}  // namespace

std::shared_ptr<const ParallelChoice> Control::Impl::listed_configuration(const Job& job, int gpus) const {
  const ParallelChoice* best = largest_listed(*job.spec, gpus, strategy_.data_parallel_only);
  return best == nullptr ? nullptr : not_owned(*best);
}

// The flows that stage a copy of the job's state, of a strategy whose state goes by way of host memory.
std::vector<BulkFlow> Control::Impl::staging_flows(const Source& source) const {
  // A snapshot lies in host memory or storage already.
  if (!strategy_.staged() || source.residency.storage || source.restore) return {};
  const bool every_replica = strategy_.planner.sources != plan::SourceRule::kFirstReplica;
  return stage_flows(*source.holding.collection, source.holding.gone, scenario_.cluster, strategy_.planner.hub,
                     every_replica);
}

double Control::Impl::least_change_s() const { return change::fixed_seconds(strategy_.costs, 1); }

// What no plan undercuts: of a source that is nowhere but in storage all the state is read from there once.
double Control::Impl::reading_seconds(const Job& job, const Source& source) const {
  const std::vector<DeviceId>& held = source.holding.collection->device_of_rank;
  const bool elsewhere =
      !source.residency.storage || !source.residency.extra.empty() ||
      std::any_of(held.begin(), held.end(), [&](DeviceId device) { return source.residency.lost.count(device) == 0; });
  const double rate = scenario_.cluster.storage_read_bytes_per_s;
  if (elsewhere || rate <= 0) return 0;
  const int64_t bytes = model::state_bytes(job.spec->model, job.spec->recipe, /*per_home=*/false);
  return static_cast<double>(bytes) / rate * job.spec->state_ratio;
}

// The change that the runtimes would play (ptc/change), and the steps that a rollback has run again. A narrower model moves
// fewer bytes, but the choice is the real one's. `whole` is the first source that has all the state, once that is known: it
// does not depend on the candidate. Skips candidates whose fixed costs alone exceed the horizon; they are never planned.
std::optional<parallel::Change> Control::Impl::change_to(
    const Job& job, const std::vector<DeviceId>& usable,
    const std::vector<std::pair<Source, std::vector<BulkFlow>>>& staged, const parallel::Candidate& candidate,
    size_t& whole) const {
  if (whole < staged.size()) {
    const double least_s = least_change_s() + reading_seconds(job, staged[whole].first);
    if (least_s >= job.spec->choose->horizon_s) return parallel::Change{.reconfiguration_s = least_s};
  }
  auto built = collection::megatron_collection(
      job.spec->model, job.spec->recipe, candidate.config,
      devices_for(candidate.config, usable, scenario_.cluster, candidate.training.precision.math, speed_));
  if (!built.ok()) return std::nullopt;
  const ParallelChoice choice{.config = candidate.config, .training = candidate.training};
  bool all_planned = true;
  for (size_t i = whole < staged.size() ? whole : 0; i < staged.size(); ++i) {
    const auto& [source, staging] = staged[i];
    collection::Collection to = *built;
    if (strategy_.places()) to.device_of_rank = place_ranks(job, source, to, choice);
    const auto made = make_plan(source, to);
    all_planned = all_planned && made.ok();
    if (!made.ok() || !(*made)->feasible()) continue;
    if (all_planned) whole = i;
    const plan::Plan& plan = **made;
    std::vector<BulkFlow> loading;
    if (strategy_.staged()) loading = load_flows(to, scenario_.cluster, strategy_.planner.hub);
    const change::Change change{.plan = plan,
                                .cluster = scenario_.cluster,
                                .costs = strategy_.costs,
                                .ranks = to.ranks(),
                                .stage = staging,
                                .load = loading,
                                .upload = strategy_.staged(),
                                .hub = strategy_.planner.hub,
                                .restore = source.restore};
    const double rerun_s = static_cast<double>(job.state.step - source.holding.step) * candidate.time.step_s;
    return parallel::Change{.reconfiguration_s = change::estimate(change, job.spec->state_ratio).total() + rerun_s,
                            .bytes_between_hosts = plan.bytes.cross_host,
                            .bytes_moved = plan.bytes.moved() + plan.bytes.from_storage};
  }
  return std::nullopt;
}

parallel::StepTime Control::Impl::priced(const Job& job, const ParallelChoice& choice,
                                         const parallel::Hardware& hardware) const {
  const parallel::Training& training = choice.training ? *choice.training : job.spec->training;
  return parallel::step_time({job.spec->shape, choice.config, training}, hardware);
}

parallel::Hardware Control::Impl::hardware_on(const Job& job, const ParallelChoice& choice,
                                              const std::vector<DeviceId>& devices) const {
  return parallel::hardware_of(scenario_.cluster, choice.config, devices, speed_, job.spec->training.precision.math);
}

// What the job may keep.
void Control::Impl::add_held(const Job& job, Chooser::Question& question) const {
  const bool holds = job.mode != Mode::kWaiting && job.choice != nullptr &&
                     job.choice->config.world() <= job.wanted_gpus && all_in(job.devices, free_devices(job)) &&
                     job.devices.size() == static_cast<size_t>(job.choice->config.world());
  if (!holds) return;
  question.held = job.choice.get();
  question.held_hardware = hardware_on(job, *job.choice, job.devices);
  question.held_time = priced(job, *job.choice, question.held_hardware);
}

std::optional<Target> Control::Impl::best_target(const Job& job) {
  const std::vector<DeviceId> usable = usable_devices(job);
  Chooser::Question question{.job = *job.spec, .devices = usable, .speed = speed_};
  if (strategy_.data_parallel_only) question.all_but_dp = &job.spec->configs.front();
  const bool weighs = job.spec->choose->objective == parallel::Objective::kPayOff && job.state.collection != nullptr;
  std::string key;
  if (weighs) {
    key = fmt::format("{} {} {} {} {}:", events_.size(), job.state.collection->epoch, job.state.gone.size(),
                      static_cast<int>(job.mode), job.devices.size());
    for (const DeviceId device : usable) key += fmt::format("{} ", device.value);
    if (const auto known = weighed_.find(job.index); known != weighed_.end() && known->second.first == key)
      return known->second.second;
    std::vector<std::pair<Source, std::vector<BulkFlow>>> staged;
    for (const Source& source : sources(job)) staged.emplace_back(source, staging_flows(source));
    question.least_change_s = least_change_s();
    const size_t unknown = staged.size();
    question.change = [this, &job, &usable, staged = std::move(staged),
                       whole = unknown](const parallel::Candidate& candidate) mutable {
      return change_to(job, usable, staged, candidate, whole);
    };
  }
  add_held(job, question);
  absl::StatusOr<Chooser::Choice> best = chooser_.best(question);
  if (weighs && !best.ok()) {  // no way anywhere: the attempt will say why
    question.change = nullptr;
    best = chooser_.best(question);
  }
  std::optional<Target> target;
  if (best.ok() && best->held) {
    target = Target{job.choice, job.devices};
  } else if (best.ok()) {
    target = Target{std::make_shared<const ParallelChoice>(*best),
                    devices_for(best->config, usable, scenario_.cluster, job.spec->training.precision.math, speed_)};
  }
  no_fit_[job.index] = best.ok() ? "" : message_of(best.status());
  if (weighs) weighed_[job.index] = {key, target};
  return target;
}

std::optional<Target> Control::Impl::choose_target(const Job& job) {
  if (policy_ != nullptr) {
    if (job.wanted_devices.empty()) return std::nullopt;
    if (blocked(job) && !gives_way(job))
      return may_stay(job) ? std::optional(Target{job.choice, job.devices}) : std::nullopt;
  }
  if (job.spec->choose) return best_target(job);
  std::vector<DeviceId> usable = usable_devices(job);
  const int gpus = std::min(job.wanted_gpus, static_cast<int>(usable.size()));
  const std::shared_ptr<const ParallelChoice> choice = listed_configuration(job, gpus);
  if (choice == nullptr) return std::nullopt;
  // More devices than before, but not enough for a larger configuration: no reason to move.
  const bool any_will_do = job.wanted_devices.empty() || policy_ != nullptr;
  const bool same_size = job.choice != nullptr && *choice == *job.choice && any_will_do &&
                         job.devices.size() == static_cast<size_t>(choice->config.world());
  if (same_size && all_in(job.devices, usable)) return Target{choice, job.devices};
  usable.resize(static_cast<size_t>(choice->config.world()));
  // Hosts fill up in rank order; a job that only shrinks keeps its order.
  if (policy_ != nullptr && !all_in(usable, job.devices)) std::sort(usable.begin(), usable.end());
  return Target{choice, std::move(usable)};
}

bool Control::Impl::settled(const Job& job) {
  const std::optional<Target> target = choose_target(job);
  if (!target || job.forced || job.choice == nullptr || *target->choice != *job.choice) return false;
  return strategy_.places() ? std::is_permutation(target->devices.begin(), target->devices.end(), job.devices.begin(),
                                                  job.devices.end())
                            : target->devices == job.devices;
}

}  // namespace scalai::control
