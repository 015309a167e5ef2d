#pragma once
// The jobs of a run, in the scenario's order and in the order of submission, and their claims on devices. One thread.

#include <set>
#include <vector>

#include "ptc/run/control/internal/job.h"
#include "ptc/run/control/internal/turn.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::control {

class Jobs {
 public:
  // The scenario outlives this. `reads_samples`: the runtime reads samples, and the ledgers await its accounts.
  Jobs(const scenario::Scenario& scenario, bool reads_samples);

  Job& operator[](int index) { return jobs_[static_cast<size_t>(index)]; }
  const Job& operator[](int index) const { return jobs_[static_cast<size_t>(index)]; }
  std::vector<Job>::iterator begin() { return jobs_.begin(); }
  std::vector<Job>::iterator end() { return jobs_.end(); }
  std::vector<Job>::const_iterator begin() const { return jobs_.begin(); }
  std::vector<Job>::const_iterator end() const { return jobs_.end(); }
  size_t size() const { return jobs_.size(); }
  // Indices in order of submission; equal times in the scenario's order.
  const std::vector<int>& arrivals() const { return arrivals_; }

  // Devices that other jobs are on or are moving to. `named`: also those that other jobs want by name.
  std::set<DeviceId> taken_by_others(const Job& job, bool named) const;
  // Another job is on, or is moving to, a device that this job wants by name.
  bool blocked(const Job& job) const { return !in_the_way(job).empty(); }
  // The job is the first of those that wait for each other in a circle.
  bool gives_way(const Job& job) const;

 private:
  std::set<int> in_the_way(const Job& job) const;
  std::set<int> waits_for(int job) const;

  std::vector<Job> jobs_;
  std::vector<int> arrivals_;
};

// Gives the job these devices in place of its own, and accounts for the time with the old ones.
void allocate(Job& job, std::vector<DeviceId> devices, Turn& turn);

}  // namespace scalai::control
