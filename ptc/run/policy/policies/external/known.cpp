#include "ptc/run/policy/policies/external/known.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

bool close_to(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(b)); }

// Whether `now` is what follows from `then`, `dt` seconds before.
bool goes_on(const Progress& then, const Progress& now, double dt) {
  if (then.placement != now.placement || then.beside != now.beside || then.even_per_s != now.even_per_s ||
      then.restarts != now.restarts || then.first_start_s != now.first_start_s ||
      then.last_change_s != now.last_change_s) {
    return false;
  }
  if (now.even_per_s > 0) {
    return close_to(now.work_done, then.work_done + now.even_per_s * dt) &&
           close_to(now.attained_gpu_s, then.attained_gpu_s + now.placement.gpus() * dt) &&
           close_to(now.executed_s, then.executed_s + dt);
  }
  return then.work_done == now.work_done && then.attained_gpu_s == now.attained_gpu_s &&
         then.executed_s == now.executed_s;
}

}  // namespace

std::optional<JobId> Known::find(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? std::nullopt : std::optional<JobId>(found->second);
}

const Placement& Known::placement(JobId job) const {
  SCALAI_CHECK(here(job), "a job that was told of");
  return told_[index(job)].progress.placement;
}

JobId Known::beside(JobId job) const {
  SCALAI_CHECK(here(job), "a job that was told of");
  return told_[index(job)].progress.beside;
}

// Of two jobs on the same GPUs the one with the lower id counts.
void Known::hold(JobId job, int sign) {
  const Progress& progress = told_[index(job)].progress;
  if (progress.beside.valid() && progress.beside < job) return;
  for (const HostShare& share : progress.placement.hosts)
    held_[static_cast<size_t>(share.host.value)] += sign * share.gpus;
}

void Known::learn(const View& view, JobId job, News& news) {
  if (index(job) >= told_.size()) told_.resize(index(job) + 1);
  const Job& spec = view.job(job);
  told_[index(job)] = {.here = true,
                       .progress = view.progress(job),
                       .at_s = view.now_s(),
                       .gpus = spec.gpus,
                       .min_gpus = spec.min_gpus,
                       .max_gpus = spec.max_gpus,
                       .work = spec.work};
  hold(job, 1);
  names_[spec.name] = job;
  watched_.insert(job);
  news.jobs.push_back({.job = job});
}

void Known::look(const View& view, JobId job, bool rate_changed, News& news) {
  if (!here(job)) return learn(view, job, news);
  Told& told = told_[index(job)];
  const Job& spec = view.job(job);
  Progress now = view.progress(job);
  const bool bounds = spec.gpus != told.gpus || spec.min_gpus != told.min_gpus || spec.max_gpus != told.max_gpus;
  const bool work = spec.work != told.work;
  const bool rates = bounds || rate_changed || now.work_done >= told.rates_until_work;
  if (!rates && !work && goes_on(told.progress, now, view.now_s() - told.at_s)) {
    const bool settled = now.even_per_s > 0 || now.placement.empty();
    if (settled && view.now_s() > told.at_s) {
      constexpr double kEarly = 1 - 1e-9;
      watched_.erase(job);
      if (now.even_per_s > 0)
        ends_.emplace(kEarly * (view.now_s() + (spec.work - now.work_done) / now.even_per_s), job);
    }
    return;
  }
  hold(job, -1);
  told.progress = std::move(now);
  told.at_s = view.now_s();
  told.gpus = spec.gpus;
  told.min_gpus = spec.min_gpus;
  told.max_gpus = spec.max_gpus;
  told.work = spec.work;
  hold(job, 1);
  watched_.insert(job);
  news.jobs.push_back({.job = job, .whole = bounds || work, .rates = rates});
}

void Known::forget(const View& view, JobId job, News& news) {
  if (!here(job)) return;
  hold(job, -1);
  told_[index(job)] = {};
  watched_.erase(job);
  names_.erase(view.job(job).name);
  news.gone.push_back(view.job(job).name);
}

// All that are here are due; the others left.
void Known::count_all(const View& view, std::map<JobId, bool>& due, News& news) {
  for (const JobId job : view.active()) due.try_emplace(job, false);
  const auto gone = [active = view.active()](JobId job) {
    return !std::binary_search(active.begin(), active.end(), job);  // they are by id
  };
  std::vector<JobId> left;
  for (const auto& [name, job] : names_) {
    if (gone(job)) left.push_back(job);
  }
  std::erase_if(due, [&](const auto& entry) { return gone(entry.first); });
  for (const JobId job : left) forget(view, job, news);
}

News Known::update(const View& view, std::span<const Event> events) {
  News news;
  held_.resize(view.fleet().hosts.size());
  std::map<JobId, bool> due;  // and whether the rate changed by itself
  for (; !ends_.empty() && ends_.begin()->first <= view.now_s(); ends_.erase(ends_.begin())) {
    if (here(ends_.begin()->second)) watched_.insert(ends_.begin()->second);  // it has outlived its estimate
  }
  for (const JobId job : watched_) due[job] = false;
  for (const JobId job : std::exchange(refused_, {})) {
    due.erase(job);
    forget(view, job, news);
  }
  for (const Event& event : events) {
    if (event.kind == Event::Kind::kFinished) {
      due.erase(event.job);
      forget(view, event.job, news);
    } else if (event.job.valid()) {
      due[event.job] = due[event.job] || event.kind == Event::Kind::kRate;
    }
    news.capacity = news.capacity || event.kind == Event::Kind::kCapacity;
  }
  news.capacity = news.capacity || !began_;
  began_ = true;
  const auto unknown = std::count_if(due.begin(), due.end(), [this](const auto& entry) { return !here(entry.first); });
  // Bounds may have changed with the capacity. The number tells of jobs that came or left without an event.
  const bool counts = names_.size() + static_cast<size_t>(unknown) == view.active().size();
  if (news.capacity || !counts) count_all(view, due, news);
  for (const auto& [job, rate_changed] : due) look(view, job, rate_changed, news);
  return news;
}

void Known::decided(const Decision& decision) {
  refused_ = decision.refused;
  for (const Grant& grant : decision.grants) {
    watched_.insert(grant.job);
    if (grant.beside.valid()) watched_.insert(grant.beside);
  }
}

}  // namespace scalai::policy
