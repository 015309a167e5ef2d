#include "ptc/cost/step/internal/expert_kernels.h"

namespace scalai::step::internal {
namespace {

// Kernels that make one operand FP8: its largest value, the scale, the cast (Transformer Engine, current scaling); with
// MXFP8 the cast and the scales' order for the product and for its transpose.
constexpr double kCastKernels = 3;

// Experts with biases are GPT-OSS's, whose gate and linear half are clamped, each by a kernel of its own, and put
// together again before the non-linearity (fused_bias_geglu.py, weighted_bias_quick_geglu_impl).
bool clamps(const Context& c) { return c.model().biases && c.model().gated && !c.training().cuda_graphs; }
void clamp_forward(const Context& c, double elements, KernelTime& time) {
  if (!clamps(c)) return;
  for (int half = 0; half < 2; ++half) time.memory(2 * c.e * elements);
  time.memory(4 * c.e * elements);
}
}  // namespace

void cast_experts(const Context& c, const Experts& experts, KernelTime& time) {
  if (c.narrow()) time.launched(2 * kCastKernels * experts.local);
}

// FP8: tokens of each expert are copied to places that products can start at, and results back. Whole-step graphs need
// dispatchers that do so themselves.
void pad_experts(const Context& c, const Experts& experts, KernelTime& time) {
  if (!c.narrow() || c.training().cuda_graphs) return;
  for (int there_and_back = 0; there_and_back < 2; ++there_and_back)
    time.memory(2 * c.e * experts.rows * experts.local * c.h);
}

// All-to-all: what came of each rank is sorted by local expert, and back (token_dispatcher.py, sort_chunks_by_idxs of
// MoEAlltoAllTokenDispatcher). Other dispatchers put tokens into their places at once.
void sort_by_expert(const Context& c, const Experts& experts, KernelTime& time) {
  if (c.training().dispatch == Dispatch::kOnce || c.workload.config.ep == 1 || experts.local <= 1) return;
  for (int there_and_back = 0; there_and_back < 2; ++there_and_back)
    time.memory(2 * c.e * experts.rows * experts.local * c.h);
}

// Each half's gradient by what was clamped, and both put together.
void clamp_backward(const Context& c, double elements, KernelTime& time) {
  if (!clamps(c)) return;
  for (int half = 0; half < 2; ++half) time.memory(3 * c.e * elements);
  time.memory(4 * c.e * elements);
}

// Biases behind the second product, which Megatron-Core adds expert by expert and in 32 bits, times the weight of the
// token (experts.py, _apply_bias), for each element: the product written, the sum, one tensor of all experts, 16 bits.
void add_expert_biases(const Context& c, const Experts& experts, KernelTime& time) {
  if (!c.model().biases || c.training().cuda_graphs) return;
  const double elements = experts.rows * experts.local * c.h;
  time.memory_of_each((4 + (c.e + 4 + 4) + (4 + 4) + (4 + c.e)) * elements, 2 * experts.local + 2);
}
// Back: to 32 bits; its part for the product in 16 bits and put together; gradients of bias and weight, each
// multiplied, written and summed. Before the first product, sums of its larger bias.
void sum_expert_biases(const Context& c, const Experts& experts, KernelTime& time) {
  if (!c.model().biases || c.training().cuda_graphs) return;
  const double rows = experts.rows * experts.local;
  time.memory_of_each(((c.e + 4) + (4 + c.e) + 2 * c.e + 2 * (4 + 4 + 4)) * rows * c.h, 5 * experts.local + 2);
  time.memory_of_each(c.e * rows * experts.ffn * (c.model().gated ? 2 : 1), experts.local);
}

void expert_activation(const Context& c, const Experts& experts, KernelTime& time) {
  const double rows = experts.rows * experts.local;
  clamp_forward(c, rows * experts.ffn, time);
  activation_forward(c, rows, experts.ffn, time);
  cast(c, rows * experts.ffn, time);
}

}  // namespace scalai::step::internal
