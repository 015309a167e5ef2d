#include "ptc/parallel/step_time_model.h"

namespace scalai::parallel {

std::vector<double> AnalyticStepTime::steps_s(std::span<const StepInput> together) const {
  std::vector<double> seconds;
  for (const StepInput& job : together) {
    const Hardware hardware = hardware_of(job.cluster, job.config, job.devices, job.speed, job.training.precision.math);
    seconds.push_back(step_time({job.model, job.config, job.training}, hardware).step_s);
  }
  return seconds;
}

}  // namespace scalai::parallel
