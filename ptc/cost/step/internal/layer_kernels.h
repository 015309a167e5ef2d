#pragma once
// Kernels of one layer, for one micro-batch on one rank, that layer_work.h puts together: linear layers, the attention
// core and the memory-bound kernels between them. Symbols: layer_work.h. Each function adds its kernels to `time`.
// Pure; any thread may call them. A Context refers to its workload and hardware, which must outlive it.

#include "ptc/cost/step/layer_work.h"

namespace scalai::step::internal {

// What stays the same for all kernels of a layer.
struct Context {
  const Workload& workload;
  const Hardware& hardware;
  Links links;
  GpuRates rates;
  double e;       // bytes an element of activations
  double t;       // tp
  double tokens;  // of a micro-batch on a rank, before tp
  double h;
  bool sequence_parallel;
  bool scaling;  // Aleph Alpha's framework
  bool internevo;
  double outside;  // tokens between the parallel regions

  Context(const Workload& w, const Hardware& hw, const StageGpu& gpu)
      : workload(w),
        hardware(hw),
        links(links_of(hw)),
        rates(rates_of(gpu, w.training.precision.math, w.training.kernels)) {
    const Training& training = w.training;
    rates.graphs = training.cuda_graphs;
    e = training.precision.activation_bytes;
    t = w.config.tp;
    tokens = static_cast<double>(training.micro_batch) * training.sequence / w.config.cp;
    h = static_cast<double>(w.model.hidden);
    sequence_parallel = training.sequence_parallel && w.config.tp > 1;
    scaling = training.runs_in() == Framework::kScaling;
    internevo = training.runs_in() == Framework::kInternEvo;
    outside = sequence_parallel ? tokens / t : tokens;
  }
  const ModelShape& model() const { return workload.model; }
  const Training& training() const { return workload.training; }
  bool narrow() const { return is_narrow(training().precision.math); }
  bool fp4() const { return training().precision.math == Math::kFP4; }
  double operand_bytes() const { return narrow() ? (fp4() ? 0.5 : 1) : e; }
  double gradient_bytes() const { return 2 * training().precision.gradient_bytes; }  // read and written

  Communication tensor(Collective kind) const { return collective(links, kind, hardware.tp, tokens * h * e); }
};

// One linear layer of `in` by `out` on `rows` tokens: forward, input gradient, weight gradient.
struct Linear {
  double rows, in, out;
  double count = 1;
  double element_bytes, result_bytes, gradient_bytes;
  bool fused;    // the product adds to the gradients of micro-batches before
  bool frozen;   // adapters are trained alone
  bool adapted;  // one is beside it
  bool at_once;  // several matrices are one kernel, else one each

  Linear(const Context& c, double tokens, double from, double to, double matrices = 1)
      : rows(tokens),
        in(from),
        out(to),
        count(matrices),
        element_bytes(c.operand_bytes()),
        result_bytes(c.e),
        gradient_bytes(c.gradient_bytes()),
        fused(c.training().overlap != Overlap::kNone),
        frozen(c.training().lora > 0),
        adapted(frozen && matrices == 1 && !c.training().lora_qkv),
        at_once(matrices == 1 || c.training().grouped_experts) {}
  void forward(KernelTime& time) const {
    run(time, {rows, out, in, count, element_bytes, result_bytes});
    adapters(time, rows * in, 2 * rows * out);
  }
  void input_gradient(KernelTime& time) const { run(time, {rows, in, out, count, element_bytes, result_bytes}); }
  void weight_gradient(KernelTime& time) const {
    if (frozen) return adapters(time, 3 * rows * in, 2 * rows * out);
    run(time, {out, in, rows, count, element_bytes, fused ? gradient_bytes : result_bytes});
    if (!fused) time.memory(count * in * out * (gradient_bytes + result_bytes));
  }
  double input_gradient_s(const Context& c) const {
    return alone(c, {rows, in, out, count, element_bytes, result_bytes});
  }
  double weight_gradient_s(const Context& c) const {
    if (frozen) return 0;
    return alone(c, {out, in, rows, count, element_bytes, gradient_bytes});
  }
  double forward_s(const Context& c) const { return alone(c, {rows, out, in, count, element_bytes, result_bytes}); }

 private:
  // Thin products, bound by what they read and write of the matrix' inputs and outputs: an input read, the result added
  // to; backward the input read, its gradient added to, the result's gradient read for either matrix.
  void adapters(KernelTime& time, double of_inputs, double of_outputs) const {
    if (!adapted) return;
    time.memory(result_bytes * of_inputs);
    time.memory(result_bytes * of_outputs);
  }
  void run(KernelTime& time, const Product& product) const { at_once ? time.product(product) : time.grouped(product); }
  static double alone(const Context& c, const Product& product) {
    return product_seconds(c.rates, c.rates.product_flops, product);
  }
};

// Attention behind its matrices, on one rank.
struct Core {
  double heads, kv_heads, dim, sequence, samples, cp;
  explicit Core(const Context& c);
  double queries() const { return sequence / cp; }
  double scores() const { return samples * heads * queries() * sequence; }
  double flops() const { return 4 * scores() * dim; }                                    // forward, mask not counted
  double qkv() const { return samples * queries() * dim * (2 * heads + 2 * kv_heads); }  // with the result
};
void core_forward(const Context& c, KernelTime& time);
void core_backward(const Context& c, KernelTime& time);
void rotary(const Context& c, KernelTime& time);
// Of a state-space block, what lies between its matrices. The backward pass computes it again first.
void scan_forward(const Context& c, KernelTime& time);
void scan_backward(const Context& c, KernelTime& time);

void norm_forward(const Context& c, KernelTime& time);
void norm_backward(const Context& c, KernelTime& time);
void residual_forward(const Context& c, KernelTime& time);
// Gradients of the branch and of the residual meet; dropout's mask is applied again.
void residual_backward(const Context& c, KernelTime& time);
// The non-linearity, of `ffn` elements a token; gated: of as many again beside them.
void activation_forward(const Context& c, double tokens, double ffn, KernelTime& time);
void activation_backward(const Context& c, double tokens, double ffn, KernelTime& time);
// FP8 operands: read in 16 bits, written twice, once transposed for the weight gradient. NVFP4's are read for their
// largest value first, and once more for the transpose, which a Hadamard transform precedes (Transformer Engine).
// Nothing in other formats.
void cast(const Context& c, double elements, KernelTime& time);

void add(const KernelTime& time, ChunkWork& work);
void add(const Communication& one, Communication& sum);

}  // namespace scalai::step::internal
