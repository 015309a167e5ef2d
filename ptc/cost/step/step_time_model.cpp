#include "ptc/cost/step/step_time_model.h"

#include <limits>
#include <optional>

#include "ptc/cost/step/degraded_cluster.h"

namespace scalai::step {
namespace {

double alone_s(const StepInput& job) {
  const auto priced = [&](const cluster::Cluster& cluster) {
    const Hardware hardware = hardware_of(cluster, job.config, job.devices, job.speed, job.training.precision.math);
    return step_time({job.model, job.config, job.training}, hardware).step_s;
  };
  if (job.links.empty()) return priced(job.cluster);
  const std::optional<cluster::Cluster> left = degraded_cluster(job.cluster, job.devices, job.links);
  return left ? priced(*left) : std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<double> AnalyticStepTime::steps_s(std::span<const StepInput> together) const {
  std::vector<double> seconds;
  for (const StepInput& job : together) seconds.push_back(alone_s(job));
  return seconds;
}

}  // namespace scalai::step
