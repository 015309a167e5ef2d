#include "ptc/cost/step/internal/layer_kernels.h"

#include <algorithm>
#include <array>

namespace scalai::step::internal {
namespace {

bool eager(const Context& c) { return c.training().kernels == Kernels::kEager; }
// Scaling has SwiGLU and rotary embedding in PyTorch's own steps, whatever its norm.
bool eager_beside_norm(const Context& c) { return eager(c) || c.scaling; }

// RMSNorm in PyTorch's own steps: to 32 bits, square, mean, product with the inverse root, to 16 bits, times the
// weight. Gated models have it. The gradients of each step read and write twice as much.
std::array<double, 6> eager_norm(const Context& c) { return {c.e + 4, 8, 4, 8, 4 + c.e, 2 * c.e}; }

}  // namespace

Core::Core(const Context& c)
    : heads(c.model().heads / c.t),
      kv_heads(std::max(1.0, c.model().kv_heads / c.t)),
      dim(static_cast<double>(c.model().head_dim)),
      sequence(c.training().sequence),
      samples(c.training().micro_batch),
      cp(c.workload.config.cp) {}

void add(const KernelTime& time, ChunkWork& work) {
  work.matrix_s += time.matrix_s();
  work.memory_s += time.memory_s();
  work.launch_s += time.launch_s();
}

void add(const Communication& one, Communication& sum) { sum = together(sum, one); }

// Context parallelism passes keys round the ranks: a kernel for a rank's own tokens, and one for those of each other
// rank, of which the mask leaves half of the queries or half of the keys. Each result is added to 32-bit sums: the
// output forward, backward the gradients of queries, keys and values.
void fused(const Context& c, const Core& core, bool backward, KernelTime& time) {
  FusedAttention own{.heads = core.samples * core.heads,
                     .queries = core.queries(),
                     .keys = core.queries(),
                     .head_size = c.model().head_dim,
                     .causal = c.model().causal,
                     .bytes = (backward ? 2 : 1) * core.qkv() * c.e / core.cp,
                     .share = c.model().attended(c.training().sequence)};
  FusedAttention other = own;
  other.causal = false;
  if (c.model().causal) other.queries /= 2;
  time.flash(own, backward);
  const double summed = core.samples * core.queries() * core.dim * (core.heads + (backward ? 2 * core.kv_heads : 0));
  for (double rank = 1; rank < core.cp; ++rank) {
    time.flash(other, backward);
    time.memory((c.e + 8) * summed);
  }
}

void core_forward(const Context& c, KernelTime& time) {
  const Core core(c);
  if (c.training().flash_attention) return fused(c, core, false, time);
  const double batch = core.samples * core.heads;
  time.attention_product({core.queries(), core.sequence, core.dim, batch, c.e, c.e}, c.model().head_dim);
  time.memory(2 * c.e * core.scores());  // scale, mask, softmax
  if (c.model().dropout) time.memory((2 * c.e + 1) * core.scores());
  time.attention_product({core.queries(), core.dim, core.sequence, batch, c.e, c.e}, c.model().head_dim);
}

void core_backward(const Context& c, KernelTime& time) {
  const Core core(c);
  if (c.training().flash_attention) return fused(c, core, true, time);
  const double batch = core.samples * core.heads;
  time.attention_product({core.queries(), core.sequence, core.dim, batch, c.e, c.e}, c.model().head_dim);
  time.attention_product({core.sequence, core.dim, core.queries(), batch, c.e, c.e}, c.model().head_dim);
  if (c.model().dropout) time.memory((2 * c.e + 1) * core.scores());
  time.memory(3 * c.e * core.scores());
  time.attention_product({core.queries(), core.dim, core.sequence, batch, c.e, c.e}, c.model().head_dim);
  time.attention_product({core.sequence, core.dim, core.queries(), batch, c.e, c.e}, c.model().head_dim);
}

// Tokens of a chunk of a scan, whose states are written in 32 bits, and the rate of its many small products as a share
// of large ones, fitted on Nemotron 3 Nano (results/perfmodel, bridge_hybrid).
constexpr double kChunk = 128, kScanShare = 0.1;

// Mamba-2's convolution, its scan by chunks (Dao and Gu 2024, section 6: B·Cᵀ within a chunk, times x; the state behind
// each chunk; C times the state before it) and the gated norm.
void scan_once(const Context& c, double times, KernelTime& time) {
  const StateSpace& s = c.model().state_space;
  const double inner = static_cast<double>(s.inner) / c.t, groups = static_cast<double>(s.groups) / c.t;
  const double state = static_cast<double>(s.state);
  time.memory(times * 2 * c.e * c.tokens * (inner + 2 * groups));
  const double small = 2 * kChunk * (groups + inner) + 4 * inner * state;  // operations of a token
  time.small_products(times * c.tokens * small, kScanShare);
  time.memory(times * c.tokens * (c.e * (3 * inner + 2 * groups) + 3 * 4 * inner * state / kChunk));
  time.memory(times * 3 * c.e * c.tokens * inner);
}
void scan_forward(const Context& c, KernelTime& time) { scan_once(c, 1, time); }
void scan_backward(const Context& c, KernelTime& time) {
  scan_once(c, 1, time);  // again
  scan_once(c, 2, time);
}

void norm_forward(const Context& c, KernelTime& time) {
  if (!eager(c) || !c.model().gated) return time.memory(2 * c.e * c.outside * c.h);
  for (const double bytes : eager_norm(c)) time.memory(bytes * c.outside * c.h);
}
void norm_backward(const Context& c, KernelTime& time) {
  if (!eager(c) || !c.model().gated) return time.memory(5 * c.e * c.outside * c.h);
  for (const double bytes : eager_norm(c)) {
    for (int operand = 0; operand < 2; ++operand) time.memory(bytes * c.outside * c.h);
  }
}

void residual_forward(const Context& c, KernelTime& time) {
  time.memory((3 * c.e + (c.model().dropout ? 1 : 0)) * c.outside * c.h);
}
void residual_backward(const Context& c, KernelTime& time) {
  time.memory(3 * c.e * c.outside * c.h);
  if (c.model().dropout) time.memory((2 * c.e + 1) * c.outside * c.h);
}

void activation_forward(const Context& c, double tokens, double ffn, KernelTime& time) {
  if (eager_beside_norm(c) && c.model().gated) {  // activation, product
    for (const double elements : {2, 3}) time.memory(elements * c.e * tokens * ffn);
    return;
  }
  time.memory((c.model().gated ? 3 : 2) * c.e * tokens * ffn);
}
void activation_backward(const Context& c, double tokens, double ffn, KernelTime& time) {
  if (eager_beside_norm(c) && c.model().gated) {  // both gradients of the product, that of the activation
    for (int i = 0; i < 3; ++i) time.memory(3 * c.e * tokens * ffn);
    return;
  }
  time.memory((c.model().gated ? 5 : 3) * c.e * tokens * ffn);
  if (c.model().biases) time.memory(c.e * tokens * ffn);  // summed for the bias
}

void rotary(const Context& c, KernelTime& time) {
  const Core core(c);
  if (c.model().positions) return;
  const double elements = c.tokens * core.dim * (core.heads + core.kv_heads);
  if (!eager_beside_norm(c)) return time.memory(2 * c.e * elements);
  for (const double passes : {1, 2, 2, 2, 3})
    time.memory(passes * c.e * elements);  // halves swapped and negated, two products, sum
}

void cast(const Context& c, double elements, KernelTime& time) {
  if (!c.narrow()) return;
  if (c.fp4()) time.memory(c.e * elements);              // the largest value
  const double written = c.training().lora > 0 ? 1 : 2;  // frozen weights have no gradients, which are of transposes
  time.memory((c.e + written * c.operand_bytes()) * elements);
  if (c.fp4() && written > 1) time.memory((c.e + c.operand_bytes()) * elements);  // rotated, for the weight gradient
}

}  // namespace scalai::step::internal
