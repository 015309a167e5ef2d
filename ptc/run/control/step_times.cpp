#include "ptc/run/control/internal/step_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::control {
namespace {

double slowest_of(const std::vector<DeviceId>& devices, const std::map<DeviceId, double>& speed) {
  double slowest = 1;
  for (const DeviceId device : devices) {
    const auto found = speed.find(device);
    if (found != speed.end()) slowest = std::min(slowest, found->second);
  }
  return slowest;
}

}  // namespace

const step::Training& training_of(const Job& job) {
  return job.choice->training ? *job.choice->training : job.spec->training;
}

StepTimes::StepTimes(const Condition& condition, const Jobs& jobs, const step::StepTimeModel& model)
    : condition_(condition), jobs_(jobs), model_(model) {}

void StepTimes::update() {
  std::string key;
  for (const auto& [device, share] : condition_.speed()) key += fmt::format("g{}x{} ", device.value, share);
  for (const auto& [link, share] : condition_.links()) key += fmt::format("{}x{} ", link, share);
  for (const Job& job : jobs_) {
    if (job.moves()) key += fmt::format("j{}e{} ", job.index, job.state.collection->epoch);
  }
  if (key == key_) return;
  key_ = key;
  seconds_.clear();
  std::vector<int> asked;
  std::vector<step::StepInput> together;
  for (const Job& job : jobs_) {
    if (!job.moves()) continue;
    if (job.choice->step_s > 0) {
      seconds_[job.index] = job.choice->step_s / slowest_of(job.devices, condition_.speed());
      continue;
    }
    asked.push_back(job.index);
    together.push_back({.model = job.spec->shape,
                        .config = job.choice->config,
                        .training = training_of(job),
                        .cluster = condition_.cluster(),
                        .devices = job.devices,
                        .speed = condition_.speed(),
                        .links = condition_.links()});
  }
  if (together.empty()) return;
  const std::vector<double> seconds = model_.steps_s(together);
  SCALAI_CHECK(seconds.size() == asked.size(), "a step time for each job");
  for (size_t i = 0; i < asked.size(); ++i) {
    SCALAI_CHECK(seconds[i] > 0, fmt::format("job {}: {} s a step", asked[i], seconds[i]));
    seconds_[asked[i]] = seconds[i];
  }
}

}  // namespace scalai::control
