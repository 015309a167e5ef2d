#include "ptc/parallel/step_time.h"

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::parallel {

double model_flops(const StepInput& input) {
  const model::Model& model = input.model;
  if (model.heads == 0) return 3 * 8.2e9 * input.global_batch;
  const double tokens = static_cast<double>(input.global_batch) * input.sequence;
  const double attention = 12.0 * model.layers * static_cast<double>(model.hidden) * input.sequence;
  return (6.0 * static_cast<double>(model.active_parameter_count()) + attention) * tokens;
}

double AnalyticStepTime::step_s(const StepInput& input) const {
  const collection::ParallelConfig& config = input.config;
  SCALAI_CHECK(input.gpu.peak_flops > 0, input.gpu.name);
  const double ideal = model_flops(input) / (config.world() * input.gpu.peak_flops * kEfficiency);
  const double micro_batches = std::max(1.0, static_cast<double>(input.global_batch) / (config.dp * input.micro_batch));
  const double bubble = 1 + (config.pp - 1) / (micro_batches * config.vpp);
  const std::vector<int> stages = collection::layers_per_stage(config, input.model.layers);
  const double mean = static_cast<double>(input.model.layers) / static_cast<double>(stages.size());
  const double imbalance = input.model.layers == 0 ? 1 : *std::max_element(stages.begin(), stages.end()) / mean;
  return ideal * bubble * imbalance;
}

}  // namespace scalai::parallel
