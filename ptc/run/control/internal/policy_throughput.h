#pragma once
// How fast a scenario's jobs run on a number of GPUs, as their policy sees it: steps a second of the configuration that
// the control loop would take (listed: the largest that fits; `parallel: choose`: the parallelizer's best), on nominal
// devices of a type, on as few hosts as they fit on. Given step times, else the closed form of
// ptc/cost/step/step_time.h, also with `compute: SIMULATED`. Answers are kept. One thread.

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "ptc/run/policy/throughput.h"
#include "ptc/run/scenario/chooser.h"

namespace scalai::control {

// The largest of a job's listed configurations that `gpus` GPUs are enough for; null: none is. `data_parallel_only`: of
// those that differ in dp alone from what the job starts with.
const scenario::ParallelChoice* largest_listed(const scenario::JobSpec& job, int gpus, bool data_parallel_only);

class PolicyThroughput final : public policy::Throughput {
 public:
  // The scenario outlives this. `types` are the names of GPU kinds, by GpuType.
  PolicyThroughput(const scenario::Scenario& scenario, bool data_parallel_only, std::vector<std::string> types);

  policy::Rate rate(const policy::Job& job, policy::GpuType type, int gpus, double work_done) const override;
  std::string description() const override;

  // Seconds a step; 0 = it cannot run on so few, or on this type.
  double step_s(int job, policy::GpuType type, int gpus) const;

  // A user's limit: GPUs beyond it make the job no faster.
  void limit(int job, int gpus) { limits_[job] = gpus; }

 private:
  std::vector<DeviceId> first_devices(policy::GpuType type, int gpus) const;
  double computed_step_s(const scenario::JobSpec& job, policy::GpuType type, int gpus) const;

  const scenario::Scenario& scenario_;
  const bool data_parallel_only_;
  const std::vector<std::string> types_;
  std::map<std::string, int> index_;  // of a job, by name
  std::map<int, int> limits_;
  mutable scenario::Chooser chooser_;
  mutable std::map<std::tuple<int, int, int>, double> known_;  // by job, type, GPUs
};

}  // namespace scalai::control
