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
double feed_forward(const ModelShape& m, int64_t width) {
  return (m.gated ? 3.0 : 2.0) * static_cast<double>(m.hidden * width);
}
double dense_matrices(const ModelShape& m) { return feed_forward(m, m.dense_ffn); }
double sparse_matrices(const ModelShape& m) {
  const double router = static_cast<double>(m.hidden) * m.experts;
  return feed_forward(m, m.ffn) * m.experts_per_token + router + feed_forward(m, m.shared_ffn);
}
double feed_forward_matrices(const ModelShape& m) {
  return m.blocks.dense * dense_matrices(m) + m.blocks.sparse * sparse_matrices(m);
}
double state_space_matrices(const ModelShape& m) {
  return static_cast<double>(m.hidden) * static_cast<double>(m.state_space.columns() + m.state_space.inner);
}
double layer_matrices(const ModelShape& m) {
  return m.blocks.attention * attention_matrices(m) + m.blocks.state_space * state_space_matrices(m) +
         feed_forward_matrices(m);
}

// Of one layer's attention cores for one token, forward.
double attention_core_flops(const ModelShape& m, int sequence) {
  return m.blocks.attention * 4.0 * static_cast<double>(m.heads * m.head_dim) * sequence * m.attended(sequence);
}
// With its scans: 7 operations for each channel and element of its state (Megatron-LM, training.py,
// mamba_layer_flops).
double core_flops(const ModelShape& m, int sequence) {
  const double scan = 7.0 * static_cast<double>(m.state_space.inner * m.state_space.state);
  return attention_core_flops(m, sequence) + m.blocks.state_space * scan;
}

// Latent attention's matrices from its vectors to queries, keys and values.
double latent_up(const ModelShape& m) { return m.latent ? static_cast<double>(m.attention_in_params) : 0; }

// Of one layer and token, what its parts compute again. Equation 9 of Korthikanti et al. counts the attention core
// three times more, one more forward each for the forward and the two parts of the backward pass.
double modules_again(const ModelShape& m, const Training& training) {
  const Recompute& recompute = training.recompute;
  return (recompute.has(Recompute::kCoreAttention) ? 3 * attention_core_flops(m, training.sequence) : 0) +
         (recompute.has(Recompute::kFeedForward) ? 2 * m.blocks.dense * dense_matrices(m) : 0) +
         (recompute.has(Recompute::kExperts) ? 2 * m.blocks.sparse * sparse_matrices(m) : 0) +
         (recompute.has(Recompute::kLatentUp) ? 2 * m.blocks.attention * latent_up(m) : 0);
}

// Keys, projection, and one matrix of the feed-forward block or all of the experts (recompute.h).
double operations_again(const ModelShape& m) {
  const double attention = static_cast<double>(m.hidden * (m.heads + m.kv_heads) * m.head_dim);
  const double dense = static_cast<double>(m.hidden * m.dense_ffn);
  return 2 * (m.blocks.attention * attention + m.blocks.sparse * sparse_matrices(m) + m.blocks.dense * dense);
}

// Layers that are computed again as a whole.
int whole_layers(const Workload& w) {
  int layers = 0;
  for (const int chunk : layers_per_stage(w)) layers += w.training.recompute.whole_layers(chunk);
  return layers;
}

}  // namespace

double model_flops(const ModelShape& model, int global_batch, int sequence, int mtp) {
  if (model.heads == 0) return model.flops_per_sample * global_batch;
  const double layer = 2 * layer_matrices(model) + core_flops(model, sequence);
  const double h = static_cast<double>(model.hidden), logits = 2 * h * static_cast<double>(model.vocab);
  const double further = mtp * (layer + 2 * 2 * h * h + logits);
  return 3 * (model.layers * layer + logits + further) * tokens_of(global_batch, sequence);
}

double hardware_flops(const Workload& workload) {
  const ModelShape& model = workload.model;
  const Training& training = workload.training;
  const double tokens = tokens_of(training.global_batch, training.sequence);
  // Frozen weights have no gradients (LoRA).
  const double frozen = training.lora > 0 ? 2 * layer_matrices(model) * model.layers * tokens : 0;
  const double flops = model_flops(model, training.global_batch, training.sequence, training.mtp) - frozen;
  if (model.heads == 0) return flops;
  double again = 0;  // of a token
  switch (training.recompute.kind) {
    case Recompute::Kind::kNothing: return flops;
    case Recompute::Kind::kModules: again = modules_again(model, training) * model.layers; break;
    case Recompute::Kind::kOperations: again = operations_again(model) * model.layers; break;
    case Recompute::Kind::kLayers:
      again = (core_flops(model, training.sequence) + 2 * layer_matrices(model)) * whole_layers(workload);
  }
  return flops + again * tokens;
}

}  // namespace scalai::step
