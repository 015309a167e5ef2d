#include "ptc/cost/step/internal/layer_memory.h"

#include <algorithm>

namespace scalai::step::internal {
namespace {

// Of an element that goes into a matrix.
double operand_bytes(const Workload& w, double a) {
  const Math math = w.training.precision.math;
  return math == Math::kFP8 ? 1 : math == Math::kFP4 ? 0.5 : a;
}

// Neither computed again nor in the host's memory.
bool keeps(const Workload& w, const Recompute& recompute, Recompute::Module module) {
  return !recompute.has(module) && (w.training.offloaded_modules & module) == 0;
}

// Bytes a token that a dense feed-forward block keeps behind its norm.
double dense_bytes(const Workload& w, double a, const Recompute& recompute) {
  const ModelShape& m = w.model;
  if (!keeps(w, recompute, Recompute::kFeedForward)) return 0;
  return ((m.gated ? 2 : 1) * a + operand_bytes(w, a)) * static_cast<double>(m.dense_ffn) / w.config.tp;
}

// Likewise experts.
double sparse_bytes(const Workload& w, double a, const Recompute& recompute) {
  const ModelShape& m = w.model;
  if (!keeps(w, recompute, Recompute::kExperts)) return 0;
  const double operand = operand_bytes(w, a);
  const bool result = keeps(w, recompute, Recompute::kExpertActivation);
  const double inner = ((m.gated ? 2 : 1) * a + (result ? operand : 0)) * static_cast<double>(m.ffn) / w.config.tp;
  const double shared = ((m.gated ? 2 : 1) * a + operand) * static_cast<double>(m.shared_ffn) / w.config.tp;
  const double rows = (operand * w.config.etp + a) * static_cast<double>(m.hidden) / w.config.tp;
  return w.training.imbalance * m.experts_per_token * (inner + rows) + shared;
}

// Likewise a state-space block, whose backward pass computes convolution and scan again (mamba_ssm,
// mamba_split_conv1d_scan_combined): the first matrix's result, the scan's, and the operand of the last matrix.
double state_space_bytes(const Workload& w, double a) {
  const StateSpace& s = w.model.state_space;
  const double kept = a * static_cast<double>(s.columns()) + (a + operand_bytes(w, a)) * static_cast<double>(s.inner);
  return kept / w.config.tp;
}

// Elements a token of queries, and of keys or values, on a rank.
double queries(const Workload& w) { return static_cast<double>(w.model.heads * w.model.head_dim) / w.config.tp; }
double keys(const Workload& w) {
  return static_cast<double>(w.model.kv_heads * w.model.head_dim) / std::min(w.config.tp, w.model.kv_heads);
}
// Of what attention gives to its last matrix.
double results(const Workload& w) {
  return static_cast<double>(w.model.attention_out_params) / static_cast<double>(w.model.hidden) / w.config.tp;
}
// Scores of a token on a rank, where attention is not fused.
double scores(const Workload& w) {
  if (w.training.flash_attention) return 0;
  return static_cast<double>(w.model.heads) / w.config.tp * w.training.sequence;
}

// Bytes a token that attention keeps behind its norm: queries, keys, values and the result, or of the former the
// vectors of latent attention that they are made of, before and behind their norms.
double attention_bytes(const Workload& w, double a, const Recompute& recompute) {
  const ModelShape& m = w.model;
  const bool up = keeps(w, recompute, Recompute::kLatentUp) || !m.latent;
  const double made = up ? a * queries(w) + 2 * a * keys(w) : 0;
  const double latent = (a + operand_bytes(w, a)) * static_cast<double>(m.latent_width) / divisor(w);
  const bool core = keeps(w, recompute, Recompute::kCoreAttention);
  const double softmax = core ? (m.dropout ? 2 * a + 1 : a) * scores(w) : 0;
  return made + operand_bytes(w, a) * results(w) + latent + softmax;
}

// Bytes a token that operations keep (Recompute::Kind::kOperations): the layer's input, queries, values, the result of
// attention, and the first matrix of the feed-forward block with the third of a gated one, or both trips of the
// experts.
double kept_operations_bytes(const Workload& w, double a) {
  const ModelShape& m = w.model;
  const double h = static_cast<double>(m.hidden);
  const double attention = 2 * queries(w) + keys(w) + scores(w);
  const double sparse = 2 * m.experts_per_token * h / w.config.tp;
  const double dense = static_cast<double>(m.dense_ffn) / w.config.tp + (m.gated ? h / divisor(w) : 0);
  return a * (h / divisor(w) + m.blocks.attention * attention + m.blocks.sparse * sparse + m.blocks.dense * dense) +
         m.blocks.state_space * state_space_bytes(w, a);
}

}  // namespace

double tokens(const Workload& w) {
  return static_cast<double>(w.training.micro_batch) * w.training.sequence / w.config.cp;
}

double divisor(const Workload& w) { return w.training.sequence_parallel ? w.config.tp : 1; }

double layer_bytes(const Workload& w, const Recompute& recompute) {
  const ModelShape& m = w.model;
  const double a = w.training.precision.activation_bytes, h = static_cast<double>(m.hidden);
  if (recompute.kind == Recompute::Kind::kLayers) return tokens(w) * a * h / divisor(w);
  if (recompute.kind == Recompute::Kind::kOperations) return tokens(w) * kept_operations_bytes(w, a);
  // Scaling keeps both matrices' inputs as they were gathered.
  const bool gathered = w.training.runs_in() == Framework::kScaling;
  const double operand = operand_bytes(w, a);
  const double inputs = gathered ? 2 * a * h : 2 * operand * h / divisor(w);
  // Two blocks a layer, as a rule: so much of each.
  const double norms = keeps(w, recompute, Recompute::kNorms) ? inputs : 0;
  const double divided = (2 * a + (m.dropout ? 2 : 0)) * h / divisor(w);
  return tokens(w) * ((norms + divided) * m.blocks.all() / 2 + m.blocks.attention * attention_bytes(w, a, recompute) +
                      m.blocks.state_space * state_space_bytes(w, a) + m.blocks.dense * dense_bytes(w, a, recompute) +
                      m.blocks.sparse * sparse_bytes(w, a, recompute));
}

}  // namespace scalai::step::internal
