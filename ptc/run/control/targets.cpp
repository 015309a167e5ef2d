#include "ptc/run/control/internal/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "ptc/base/status.h"
#include "ptc/cost/step/devices.h"
#include "ptc/run/control/internal/policy_throughput.h"
#include "ptc/state/collection/layout_name.h"

namespace scalai::control {
namespace {

// Of the spec, which outlives everything here.
std::shared_ptr<const scenario::ParallelChoice> not_owned(const scenario::ParallelChoice& choice) {
  return {std::shared_ptr<const void>(), &choice};
}

bool all_in(const std::vector<DeviceId>& some, const std::vector<DeviceId>& devices) {
  return std::all_of(some.begin(), some.end(), [&](DeviceId device) {
    return std::find(devices.begin(), devices.end(), device) != devices.end();
  });
}

}  // namespace

Targets::Targets(const scenario::Scenario& scenario, const scenario::Strategy& strategy, const Condition& condition,
                 const Jobs& jobs, const ChangePlanner& planner, const Turn& turn)
    : scenario_(scenario),
      strategy_(strategy),
      condition_(condition),
      jobs_(jobs),
      planner_(planner),
      turn_(turn),
      chooser_(scenario.cluster) {}

std::optional<Target> Targets::choose(const Job& job) {
  if (scenario_.policy) {
    if (job.wanted.devices.empty()) return std::nullopt;
    if (jobs_.blocked(job) && !jobs_.gives_way(job))
      return may_stay(job) ? std::optional(Target{job.choice, job.devices}) : std::nullopt;
  }
  return job.spec->choose ? best_target(job) : largest_target(job);
}

bool Targets::settled(const Job& job) {
  const std::optional<Target> target = choose(job);
  if (!target || job.request.forced || job.choice == nullptr || *target->choice != *job.choice) return false;
  return strategy_.placement.places() ? std::is_permutation(target->devices.begin(), target->devices.end(),
                                                            job.devices.begin(), job.devices.end())
                                      : target->devices == job.devices;
}

// It goes on where it is while others are on the devices that it is to have.
bool Targets::may_stay(const Job& job) const {
  return job.choice != nullptr && job.devices.size() == static_cast<size_t>(job.choice->config.world()) &&
         std::none_of(job.devices.begin(), job.devices.end(), [&](DeviceId device) { return condition_.dead(device); });
}

std::vector<DeviceId> Targets::free_devices(const Job& job) const {
  const bool beginning = turn_.logged == 1;  // nobody is given what another one names
  const std::set<DeviceId> taken = jobs_.taken_by_others(job, /*named=*/beginning);
  const int home = condition_.home_of(own_devices(job));
  const auto is_free = [&](DeviceId device) {
    return condition_.usable(device) && condition_.on(home, device) && !taken.contains(device);
  };
  std::vector<DeviceId> free;
  const std::vector<DeviceId>& first = job.wanted.devices.empty() ? own_devices(job) : job.wanted.devices;
  std::copy_if(first.begin(), first.end(), std::back_inserter(free), is_free);
  if (!job.wanted.devices.empty()) return free;
  const std::set<DeviceId> mine(free.begin(), free.end());
  for (int i = 0; i < scenario_.cluster.device_count(); ++i) {
    if (is_free(DeviceId(i)) && !mine.contains(DeviceId(i))) free.emplace_back(i);
  }
  return free;
}

std::vector<DeviceId> Targets::usable_devices(const Job& job) const {
  std::vector<DeviceId> usable = free_devices(job);
  const bool named = !job.wanted.devices.empty();
  if (job.spec->choose) {
    return step::devices_to_use(usable, job.wanted.gpus, named, scenario_.cluster, job.spec->training.precision.math,
                                condition_.speed());
  }
  if (named) return usable;
  const std::set<DeviceId> own(own_devices(job).begin(), own_devices(job).end());
  const auto had = static_cast<size_t>(
      std::count_if(usable.begin(), usable.end(), [&](DeviceId device) { return own.contains(device); }));
  usable.resize(std::min(usable.size(), std::max(had, static_cast<size_t>(std::max(0, job.wanted.gpus)))));
  // Hosts fill up in rank order; a job that only shrinks keeps its order.
  if (usable.size() > had) std::sort(usable.begin(), usable.end());
  return usable;
}

// Two jobs that wait for more devices could hold each other's for ever: only a job alone keeps what it cannot use.
std::vector<DeviceId> Targets::kept_devices(const Job& job) const {
  if (jobs_.size() > 1 || scenario_.policy) return {};
  std::vector<DeviceId> kept = usable_devices(job);
  kept.resize(std::min(kept.size(), static_cast<size_t>(job.wanted.gpus)));
  return kept;
}

std::optional<Target> Targets::largest_target(const Job& job) const {
  std::vector<DeviceId> usable = usable_devices(job);
  const int gpus = std::min(job.wanted.gpus, static_cast<int>(usable.size()));
  const scenario::ParallelChoice* largest = largest_listed(*job.spec, gpus, strategy_.data_parallel_only);
  if (largest == nullptr) return std::nullopt;
  const std::shared_ptr<const scenario::ParallelChoice> choice = not_owned(*largest);
  // More devices than before, but not enough for a larger configuration: no reason to move.
  const bool any_will_do = job.wanted.devices.empty() || scenario_.policy;
  const bool same_size = job.choice != nullptr && *choice == *job.choice && any_will_do &&
                         job.devices.size() == static_cast<size_t>(choice->config.world());
  if (same_size && all_in(job.devices, usable)) return Target{choice, job.devices};
  usable.resize(static_cast<size_t>(choice->config.world()));
  // Hosts fill up in rank order; a job that only shrinks keeps its order.
  if (scenario_.policy && !all_in(usable, job.devices)) std::sort(usable.begin(), usable.end());
  return Target{choice, std::move(usable)};
}

void Targets::add_held(const Job& job, scenario::Chooser::Question& question) const {
  const bool holds = job.mode != Mode::kWaiting && job.choice != nullptr &&
                     job.choice->config.world() <= job.wanted.gpus && all_in(job.devices, free_devices(job)) &&
                     job.devices.size() == static_cast<size_t>(job.choice->config.world());
  if (!holds) return;
  question.held = job.choice.get();
  question.held_hardware = planner_.hardware_on(job, *job.choice, job.devices);
  question.held_time = priced(job, *job.choice, question.held_hardware);
}

std::optional<Target> Targets::best_target(const Job& job) {
  const std::vector<DeviceId> usable = usable_devices(job);
  scenario::Chooser::Question question{
      .job = *job.spec, .devices = usable, .speed = condition_.speed(), .explain_idle = true};
  if (strategy_.data_parallel_only) question.all_but_dp = &job.spec->configs.front();
  const bool weighs = job.spec->choose->objective == step::Objective::kPayOff && job.state.collection != nullptr;
  std::string key;
  if (weighs) {
    key = fmt::format("{} {} {} {} {}:", turn_.logged, job.state.collection->epoch, job.state.gone.size(),
                      static_cast<int>(job.mode), job.devices.size());
    for (const DeviceId device : usable) key += fmt::format("{} ", device.value);
    if (const auto known = weighed_.find(job.index); known != weighed_.end() && known->second.first == key)
      return known->second.second;
    question.least_change_s = planner_.least_change_s();
    question.change = planner_.pricer(job, usable);
  }
  add_held(job, question);
  absl::StatusOr<scenario::Chooser::Choice> best = chooser_.best(question);
  if (weighs && !best.ok()) {  // no way anywhere: the attempt will say why
    question.change = nullptr;
    best = chooser_.best(question);
  }
  std::optional<Target> target;
  if (best.ok() && best->held) {
    target = Target{job.choice, job.devices};
  } else if (best.ok()) {
    target = Target{std::make_shared<const scenario::ParallelChoice>(*best),
                    step::devices_for(best->config, usable, scenario_.cluster, job.spec->training.precision.math,
                                      condition_.speed())};
  }
  no_fit_[job.index] = best.ok() ? "" : message_of(best.status());
  if (weighs) weighed_[job.index] = {key, target};
  return target;
}

std::string Targets::why_none(const Job& job) const {
  if (scenario_.policy && job.wanted.devices.empty()) return "";
  if (!job.spec->choose) return why_none_listed(job);
  const auto found = no_fit_.find(job.index);
  return found != no_fit_.end() ? found->second : "";
}

Targets::Offer Targets::offer_to(const Job& job) const {
  const std::set<DeviceId> taken = jobs_.taken_by_others(job, /*named=*/false);
  const int devices = scenario_.cluster.device_count(), home = condition_.home_of(own_devices(job));
  int cut_off = 0;
  Offer offer;
  for (int i = 0; i < devices; ++i) {
    const DeviceId device(i);
    if (!condition_.usable(device)) {
      ++offer.gone;
    } else if (!condition_.on(home, device)) {
      ++cut_off;
    } else if (taken.contains(device)) {
      ++offer.held;
    }
  }
  offer.gpus = devices - offer.gone - cut_off - offer.held;
  if (cut_off > 0) offer.why.push_back(fmt::format("{} of {} cut off", cut_off, devices));
  if (offer.gone > 0) offer.why.push_back(fmt::format("{} of {} lost or drained", offer.gone, devices));
  if (offer.held > 0) offer.why.push_back(fmt::format("{} held by other jobs", offer.held));
  if (!job.wanted.devices.empty()) {
    offer.gpus = static_cast<int>(usable_devices(job).size());
    offer.why.emplace_back("of those named");
  } else if (job.wanted.gpus < offer.gpus) {
    offer.gpus = job.wanted.gpus;
    offer.why.emplace_back("as many as it is to have");
  }
  return offer;
}

std::string Targets::why_waits(const Job& job) const {
  if (scenario_.policy && job.wanted.devices.empty()) return "queued: the policy gives it no GPUs";
  if (scenario_.policy && jobs_.blocked(job)) return "queued: other jobs are still on its GPUs";
  const auto [gpus, held, gone, why] = offer_to(job);
  if (held > 0 && gone == 0 && !condition_.any_cut_off()) return "queued: other jobs have GPUs that it needs";
  const std::string text = gpus == 0 ? "no GPU is free" : fmt::format("no layout fits {} GPUs", gpus);
  return why.empty() ? text : fmt::format("{} ({})", text, fmt::join(why, ", "));
}

std::string Targets::why_none_listed(const Job& job) const {
  const collection::ParallelConfig* smallest = nullptr;
  for (const scenario::ParallelChoice& choice : job.spec->configs) {
    const int world = choice.config.world();
    if (largest_listed(*job.spec, world, strategy_.data_parallel_only) != &choice) continue;
    if (smallest == nullptr || world < smallest->world()) smallest = &choice.config;
  }
  if (smallest == nullptr) return "";
  const auto [have, held, gone, why] = offer_to(job);
  return fmt::format(
      "its smallest configuration, {}, needs {} GPUs and it can have {} ({}); a smaller one in \"configs\" or a repair "
      "would let it go on",
      collection::canonical(*smallest), smallest->world(), have, fmt::join(why, ", "));
}

}  // namespace scalai::control
