#include "ptc/run/control/internal/jobs.h"

#include <algorithm>
#include <utility>

namespace scalai::control {

Jobs::Jobs(const scenario::Scenario& scenario, bool reads_samples) {
  for (const scenario::JobSpec& spec : scenario.jobs) {
    Job job;
    job.index = static_cast<int>(jobs_.size());
    job.spec = &spec;
    job.wanted.gpus = spec.gpus;
    job.wanted.devices = spec.devices;
    job.accounts.record.name = spec.name;
    job.accounts.schedule = {.submit_s = spec.submit_s, .first_start_s = {}, .deadline_s = spec.deadline_s};
    if (spec.redundancy.copies > 0)
      job.accounts.record.redundancy = {.copies = spec.redundancy.copies, .made = 0, .survives_host_losses = {}};
    if (spec.dataset) job.ledger.emplace(spec.dataset->state, reads_samples);
    arrivals_.push_back(job.index);
    jobs_.push_back(std::move(job));
  }
  std::stable_sort(arrivals_.begin(), arrivals_.end(),
                   [&](int a, int b) { return (*this)[a].spec->submit_s < (*this)[b].spec->submit_s; });
}

std::set<DeviceId> Jobs::taken_by_others(const Job& job, bool named) const {
  std::set<DeviceId> taken;
  for (const Job& other : jobs_) {
    if (other.index == job.index) continue;
    taken.insert(other.devices.begin(), other.devices.end());
    if (named) taken.insert(other.wanted.devices.begin(), other.wanted.devices.end());
    if (other.underway) taken.insert(other.underway->target.devices.begin(), other.underway->target.devices.end());
  }
  return taken;
}

std::set<int> Jobs::in_the_way(const Job& job) const {
  const std::set<DeviceId> wanted(job.wanted.devices.begin(), job.wanted.devices.end());
  const auto any_wanted = [&](const std::vector<DeviceId>& devices) {
    return std::any_of(devices.begin(), devices.end(), [&](DeviceId device) { return wanted.contains(device); });
  };
  std::set<int> others;
  for (const Job& other : jobs_) {
    if (other.index == job.index) continue;
    if (any_wanted(other.devices) || (other.underway && any_wanted(other.underway->target.devices)))
      others.insert(other.index);
  }
  return others;
}

// The jobs that have to move before it can, those that have to move before them, and so on.
std::set<int> Jobs::waits_for(int job) const {
  std::set<int> reached;
  std::vector<int> next = {job};
  while (!next.empty()) {
    const Job& at = (*this)[next.back()];
    next.pop_back();
    for (const int other : in_the_way(at)) {
      if (reached.insert(other).second) next.push_back(other);
    }
  }
  return reached;
}

bool Jobs::gives_way(const Job& job) const {
  const std::set<int> others = waits_for(job.index);
  const auto in_circle = [&](int other) { return waits_for(other).contains(job.index); };
  return others.contains(job.index) && job.index == *std::find_if(others.begin(), others.end(), in_circle);
}

void allocate(Job& job, std::vector<DeviceId> devices, Turn& turn) {
  const double since_s = turn.now_s - job.accounts.allocated_since_s;
  job.accounts.record.gpu_hours += static_cast<double>(job.devices.size()) * since_s / 3600;
  if (!turn.usd_per_h.empty()) {
    std::optional<double>& cost_usd = job.accounts.record.cost_usd;
    cost_usd = cost_usd.value_or(0) + job.accounts.usd_per_h * since_s / 3600;
    job.accounts.usd_per_h = 0;
    for (const DeviceId device : devices) job.accounts.usd_per_h += turn.usd_per_h[static_cast<size_t>(device.value)];
  }
  (job.devices.empty() ? job.accounts.schedule.waited_s : job.accounts.held_s) += since_s;
  job.accounts.allocated_since_s = turn.now_s;
  const bool frees = std::any_of(job.devices.begin(), job.devices.end(), [&](DeviceId device) {
    return std::find(devices.begin(), devices.end(), device) == devices.end();
  });
  if (frees) turn.freed_by = job.spec->name;
  job.devices = std::move(devices);
}

}  // namespace scalai::control
