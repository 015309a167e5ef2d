#pragma once
// Kernels of one block of experts beside its products and messages, for one micro-batch on one rank. Symbols and rules
// as in layer_kernels.h.

#include "ptc/cost/step/internal/layer_kernels.h"

namespace scalai::step::internal {

struct Experts {
  double routed;  // token copies that a rank sends to experts
  double rows;    // token copies that each local expert gets
  double local;   // experts on a rank
  double etp;
  double ffn;  // of an expert on a rank
  explicit Experts(const Context& c) {
    const collection::ParallelConfig& config = c.workload.config;
    etp = config.etp;
    ffn = static_cast<double>(c.model().ffn) / etp;
    local = static_cast<double>(c.model().experts) / config.ep;
    routed = c.tokens / c.t * c.model().experts_per_token * c.training().imbalance;
    rows = routed * etp / local;
  }
  Linear first(const Context& c) const { return {c, rows, c.h, ffn * (c.model().gated ? 2 : 1), local}; }
  Linear second(const Context& c) const { return {c, rows, ffn, c.h, local}; }
};

// FP8: each local expert's rows are cast by kernels of their own before each of two products.
void cast_experts(const Context& c, const Experts& experts, KernelTime& time);
// FP8: tokens of each expert are copied to places that products can start at, and results back.
void pad_experts(const Context& c, const Experts& experts, KernelTime& time);
// All-to-all: what came of each rank is sorted by local expert, and back.
void sort_by_expert(const Context& c, const Experts& experts, KernelTime& time);
// Of experts with biases (GPT-OSS): gradients through the clamps of both halves; biases behind the second product, and
// their sums.
void clamp_backward(const Context& c, double elements, KernelTime& time);
void add_expert_biases(const Context& c, const Experts& experts, KernelTime& time);
void sum_expert_biases(const Context& c, const Experts& experts, KernelTime& time);
// The non-linearity of all local experts, and its result as the operand of the second product.
void expert_activation(const Context& c, const Experts& experts, KernelTime& time);

}  // namespace scalai::step::internal
