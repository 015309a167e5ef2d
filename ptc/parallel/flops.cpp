// model_flops and hardware_flops of step_time.h.
#include "ptc/parallel/step_time.h"

namespace scalai::parallel {
namespace {

double tokens_of(int global_batch, int sequence) { return static_cast<double>(global_batch) * sequence; }

// Elements of the matrices that a token goes through in one layer.
double layer_matrices(const ModelShape& m) {
  const double h = static_cast<double>(m.hidden), ffn = static_cast<double>(m.ffn);
  const double attention = h * static_cast<double>((2 * m.heads + 2 * m.kv_heads) * m.head_dim);
  const double feed_forward = (m.gated ? 3 : 2) * h * ffn;
  return attention + (m.experts > 0 ? feed_forward * m.experts_per_token + h * m.experts : feed_forward);
}

// Of one layer's attention core for one token, forward.
double core_flops(const ModelShape& m, int sequence) {
  return 4.0 * static_cast<double>(m.heads * m.head_dim) * sequence;
}

}  // namespace

double model_flops(const ModelShape& model, int global_batch, int sequence) {
  if (model.heads == 0) return model.flops_per_sample * global_batch;
  const double layer = 2 * layer_matrices(model) + core_flops(model, sequence);
  const double logits = 2.0 * static_cast<double>(model.hidden) * static_cast<double>(model.vocab);
  return 3 * (model.layers * layer + logits) * tokens_of(global_batch, sequence);
}

double hardware_flops(const Workload& workload) {
  const ModelShape& model = workload.model;
  const Training& training = workload.training;
  const double flops = model_flops(model, training.global_batch, training.sequence);
  if (model.heads == 0 || training.recompute == Recompute::kNone) return flops;
  // Equation 9 of Korthikanti et al. counts the attention core three times more, one more forward each for the forward
  // and the two parts of the backward pass.
  const double core = core_flops(model, training.sequence);
  const double again = training.recompute == Recompute::kFull ? core + 2 * layer_matrices(model) : 3 * core;
  return flops + again * model.layers * tokens_of(training.global_batch, training.sequence);
}

}  // namespace scalai::parallel
