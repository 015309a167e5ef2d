#include "ptc/run/control/internal/policy_throughput.h"

#include <algorithm>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/cost/step/step_time.h"

namespace scalai::control {

const scenario::ParallelChoice* largest_listed(const scenario::JobSpec& job, int gpus, bool data_parallel_only) {
  const collection::ParallelConfig* first = nullptr;  // what the job starts with
  for (const scenario::ParallelChoice& choice : job.configs) {
    if (choice.config.world() == job.gpus) first = &choice.config;
  }
  const auto allowed = [&](const collection::ParallelConfig& config) {
    if (!data_parallel_only || first == nullptr) return true;
    return config.tp == first->tp && config.pp == first->pp && config.cp == first->cp && config.ep == first->ep &&
           config.vpp == first->vpp;
  };
  const scenario::ParallelChoice* best = nullptr;
  for (const scenario::ParallelChoice& choice : job.configs) {
    if (choice.config.world() > gpus || !allowed(choice.config)) continue;
    if (best == nullptr || choice.config.world() > best->config.world()) best = &choice;
  }
  return best;
}

PolicyThroughput::PolicyThroughput(const scenario::Scenario& scenario, bool data_parallel_only,
                                   std::vector<std::string> types)
    : scenario_(scenario),
      data_parallel_only_(data_parallel_only),
      types_(std::move(types)),
      chooser_(scenario.cluster) {
  for (size_t i = 0; i < scenario.jobs.size(); ++i) index_[scenario.jobs[i].name] = static_cast<int>(i);
}

policy::Rate PolicyThroughput::rate(const policy::Job& job, policy::GpuType type, int gpus,
                                    double /*work_done*/) const {
  const auto found = index_.find(job.name);
  SCALAI_CHECK(found != index_.end(), job.name);
  const double seconds = step_s(found->second, type, gpus);
  return {.per_s = seconds > 0 ? 1 / seconds : 0};
}

std::string PolicyThroughput::description() const {
  return "steps of the configuration that a job would take on so many nominal GPUs";
}

double PolicyThroughput::step_s(int job, policy::GpuType type, int gpus) const {
  if (const auto limit = limits_.find(job); limit != limits_.end()) gpus = std::min(gpus, limit->second);
  const auto [known, fresh] = known_.emplace(std::tuple(job, type.value, gpus), 0);
  if (fresh) known->second = computed_step_s(scenario_.jobs[static_cast<size_t>(job)], type, gpus);
  return known->second;
}

// Whole hosts in their order, then part of one: as few as the devices fit on where hosts are alike.
std::vector<DeviceId> PolicyThroughput::first_devices(policy::GpuType type, int gpus) const {
  std::vector<DeviceId> devices;
  const std::string& kind = types_.at(static_cast<size_t>(type.value));
  for (size_t host = 0; host < scenario_.cluster.hosts.size(); ++host) {
    if (scenario_.cluster.hosts[host].gpu.name != kind) continue;
    for (const DeviceId device : scenario_.cluster.devices_of(HostId(static_cast<int64_t>(host)))) {
      if (static_cast<int>(devices.size()) < gpus) devices.push_back(device);
    }
  }
  return devices;
}

double PolicyThroughput::computed_step_s(const scenario::JobSpec& job, policy::GpuType type, int gpus) const {
  const std::vector<DeviceId> devices = first_devices(type, gpus);
  if (gpus < 1 || static_cast<int>(devices.size()) < gpus) return 0;
  const std::map<DeviceId, double> nominal;
  scenario::ParallelChoice choice;
  if (job.choose) {
    scenario::Chooser::Question question{.job = job, .devices = devices, .speed = nominal};
    if (data_parallel_only_) question.all_but_dp = &job.configs.front();
    const absl::StatusOr<scenario::Chooser::Choice> best = chooser_.best(question);
    if (!best.ok()) return 0;
    choice = *best;
  } else {
    const scenario::ParallelChoice* listed = largest_listed(job, gpus, data_parallel_only_);
    if (listed == nullptr) return 0;
    choice = *listed;
  }
  if (choice.step_s > 0) return choice.step_s;
  const step::Training& training = choice.training ? *choice.training : job.training;
  const step::Math math = training.precision.math;
  std::vector<DeviceId> taken = devices;
  taken.resize(static_cast<size_t>(choice.config.world()));
  if (job.choose) taken = step::devices_for(choice.config, devices, scenario_.cluster, math, nominal);
  return step::step_time({job.shape, choice.config, training},
                         step::hardware_of(scenario_.cluster, choice.config, taken, nominal, math))
      .step_s;
}

}  // namespace scalai::control
