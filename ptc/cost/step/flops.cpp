// model_flops and hardware_flops of step_time.h.
#include "ptc/cost/step/step_time.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::step {
namespace {

double tokens_of(int global_batch, int sequence) { return static_cast<double>(global_batch) * sequence; }

// Elements of the matrices that a token goes through in one layer.
double attention_matrices(const ModelShape& m) {
  return static_cast<double>(m.attention_in_params + m.attention_whole_params + m.attention_out_params);
}
double feed_forward_matrices(const ModelShape& m) {
  const double h = static_cast<double>(m.hidden), one = (m.gated ? 3 : 2) * h * static_cast<double>(m.ffn);
  const double shared = (m.gated ? 3 : 2) * h * static_cast<double>(m.shared_ffn);
  return m.experts > 0 ? one * m.experts_per_token + h * m.experts + shared : one;
}
double layer_matrices(const ModelShape& m) { return attention_matrices(m) + feed_forward_matrices(m); }

// Of one layer's attention core for one token, forward.
double core_flops(const ModelShape& m, int sequence) {
  return 4.0 * static_cast<double>(m.heads * m.head_dim) * sequence;
}

// Of one layer and token, what its parts compute again. Equation 9 of Korthikanti et al. counts the attention core
// three times more, one more forward each for the forward and the two parts of the backward pass.
double modules_again(const ModelShape& m, const Training& training) {
  const Recompute& recompute = training.recompute;
  const bool block = recompute.has(m.experts > 0 ? Recompute::kExperts : Recompute::kFeedForward);
  return (recompute.has(Recompute::kCoreAttention) ? 3 * core_flops(m, training.sequence) : 0) +
         (block ? 2 * feed_forward_matrices(m) : 0);
}

// Keys, projection, and one matrix of the feed-forward block or all of the experts (recompute.h).
double operations_again(const ModelShape& m) {
  const double h = static_cast<double>(m.hidden);
  const double attention = static_cast<double>(m.hidden * (m.heads + m.kv_heads) * m.head_dim);
  return 2 * (attention + (m.experts > 0 ? feed_forward_matrices(m) : h * static_cast<double>(m.ffn)));
}

// Layers that are computed again as a whole.
int whole_layers(const Workload& w) {
  int layers = 0;
  for (const int chunk : collection::layers_per_stage(w.config, w.model.layers))
    layers += w.training.recompute.whole_layers(chunk);
  return layers;
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
  if (model.heads == 0) return flops;
  double again = 0;  // of a token
  switch (training.recompute.kind) {
    case Recompute::Kind::kNothing: return flops;
    case Recompute::Kind::kModules: again = modules_again(model, training) * model.layers; break;
    case Recompute::Kind::kOperations: again = operations_again(model) * model.layers; break;
    case Recompute::Kind::kLayers:
      again = (core_flops(model, training.sequence) + 2 * layer_matrices(model)) * whole_layers(workload);
  }
  return flops + again * tokens_of(training.global_batch, training.sequence);
}

}  // namespace scalai::step
