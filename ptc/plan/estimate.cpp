#include "ptc/plan/estimate.h"

#include <algorithm>
#include <numeric>

#include "ptc/plan/internal/round_load.h"

namespace scalai::plan {

std::vector<double> round_seconds(const Plan& plan, const cluster::Cluster& cluster) {
  std::vector<std::vector<const Instance*>> rounds(static_cast<size_t>(plan.rounds));
  for (const Instance& instance : plan.instances) rounds[static_cast<size_t>(instance.round)].push_back(&instance);
  std::vector<double> seconds;
  for (const std::vector<const Instance*>& instances : rounds) {
    internal::RoundLoad load(cluster);
    for (const Instance* instance : instances)
      load.add(plan, plan.tensors_of(*instance), instance->box, plan.patterns.legs(instance->pattern));
    seconds.push_back(load.seconds());
  }
  return seconds;
}

double estimate_seconds(const Plan& plan, const cluster::Cluster& cluster) {
  const std::vector<double> seconds = round_seconds(plan, cluster);
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

int64_t most_allocated_bytes(const Plan& plan) {
  int64_t most = 0;
  for (const DeviceMemory& memory : plan.memory)
    most = std::max(most, std::max(memory.before, memory.after) + memory.peak_extra - memory.before);
  return most;
}

double allocate_seconds(const Plan& plan, double bytes_per_s) {
  return bytes_per_s > 0 ? static_cast<double>(most_allocated_bytes(plan)) / bytes_per_s : 0;
}

bool frees_early(const Plan& plan) {
  for (int32_t pattern = 0; pattern < plan.patterns.size(); ++pattern) {
    if (!plan.patterns.frees(pattern).empty()) return true;
  }
  return false;
}

}  // namespace scalai::plan
