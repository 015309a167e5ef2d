#include "ptc/cost/step/internal/layer_memory.h"

#include <algorithm>

namespace scalai::step::internal {
namespace {

// Of an element that goes into a matrix.
double operand_bytes(const Workload& w, double a) { return w.training.precision.math == Math::kFP8 ? 1 : a; }

// Neither computed again nor in the host's memory.
bool keeps(const Workload& w, const Recompute& recompute, Recompute::Module module) {
  return !recompute.has(module) && (w.training.offloaded_modules & module) == 0;
}

// Bytes a token that the feed-forward part keeps.
double feed_forward_bytes(const Workload& w, double a, const Recompute& recompute) {
  const ModelShape& m = w.model;
  if (!keeps(w, recompute, m.experts > 0 ? Recompute::kExperts : Recompute::kFeedForward)) return 0;
  const double operand = operand_bytes(w, a);
  const bool result = m.experts == 0 || keeps(w, recompute, Recompute::kExpertActivation);
  const double inner = ((m.gated ? 2 : 1) * a + (result ? operand : 0)) * static_cast<double>(m.ffn) / w.config.tp;
  if (m.experts == 0) return inner;
  const double shared = ((m.gated ? 2 : 1) * a + operand) * static_cast<double>(m.shared_ffn) / w.config.tp;
  const double rows = (operand * w.config.etp + a) * static_cast<double>(m.hidden) / w.config.tp;
  return m.experts_per_token * (inner + rows) + shared;
}

// Elements a token of queries, and of keys or values, on a rank.
double queries(const Workload& w) { return static_cast<double>(w.model.heads * w.model.head_dim) / w.config.tp; }
double keys(const Workload& w) {
  return static_cast<double>(w.model.kv_heads * w.model.head_dim) / std::min(w.config.tp, w.model.kv_heads);
}
// Scores of a token on a rank, where attention is not fused.
double scores(const Workload& w) {
  if (w.training.flash_attention) return 0;
  return static_cast<double>(w.model.heads) / w.config.tp * w.training.sequence;
}

// Bytes a token that operations keep (Recompute::Kind::kOperations): the layer's input, queries, values, the result of
// attention, and the first matrix of the feed-forward block with the third of a gated one, or both trips of the
// experts.
double kept_operations_bytes(const Workload& w, double a) {
  const ModelShape& m = w.model;
  const double h = static_cast<double>(m.hidden);
  const double attention = 2 * queries(w) + keys(w) + scores(w);
  const double feed_forward = m.experts > 0 ? 2 * m.experts_per_token * h / w.config.tp
                                            : static_cast<double>(m.ffn) / w.config.tp + (m.gated ? h / divisor(w) : 0);
  return a * (h / divisor(w) + attention + feed_forward);
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
  const double norms = keeps(w, recompute, Recompute::kNorms) ? inputs : 0;
  const double divided = (2 * a + (m.dropout ? 2 : 0)) * h / divisor(w);
  const double attention = (a + operand) * queries(w) + 2 * a * keys(w);
  const bool core = keeps(w, recompute, Recompute::kCoreAttention);
  const double softmax = core ? (m.dropout ? 2 * a + 1 : a) * scores(w) : 0;
  return tokens(w) * (norms + divided + attention + feed_forward_bytes(w, a, recompute) + softmax);
}

}  // namespace scalai::step::internal
