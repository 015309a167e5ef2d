#include "ptc/parallel/layer_work.h"

#include <algorithm>
#include <array>

namespace scalai::parallel {
namespace {

// A collective's kernels take some of the multiprocessors and of the memory bandwidth from the product beside it.
constexpr double kOverlapCost = 0.15;
// Small kernels of routing, permutation and the counts of tokens for a layer and micro-batch, forward and backward. A
// profile of Qwen3-30B on 16 H100 has 463,348 kernels in a step of 64 micro-batches and 48 layers (Megatron-Bridge): 151
// a layer, of which some 30 are the other block's and norms, and 48 products of eight local experts.
constexpr double kRoutingForward = 30, kRoutingBackward = 43;

// Kernels that make one operand FP8: its largest value, the scale, the cast (Transformer Engine, current scaling); with
// MXFP8 the cast and the scales' order for the product and for its transpose.
constexpr double kCastKernels = 3;

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
  bool scaling;    // Aleph Alpha's framework
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
    outside = sequence_parallel ? tokens / t : tokens;
  }
  const ModelShape& model() const { return workload.model; }
  const Training& training() const { return workload.training; }
  bool fp8() const { return training().precision.math == Math::kFP8; }
  double operand_bytes() const { return fp8() ? 1 : e; }
  double gradient_bytes() const { return 2 * training().precision.gradient_bytes; }  // read and written

  Communication tensor(Collective kind) const { return collective(links, kind, hardware.tp, tokens * h * e); }
};

// One linear layer of `in` by `out` on `rows` tokens: forward, input gradient, weight gradient.
struct Linear {
  double rows, in, out;
  double count = 1;
  double element_bytes, result_bytes, gradient_bytes;
  bool fused;  // the product adds to the gradients of micro-batches before

  Linear(const Context& c, double tokens, double from, double to, double matrices = 1)
      : rows(tokens),
        in(from),
        out(to),
        count(matrices),
        element_bytes(c.operand_bytes()),
        result_bytes(c.e),
        gradient_bytes(c.gradient_bytes()),
        fused(c.training().overlap != Overlap::kNone) {}
  void forward(KernelTime& time) const { run(time, {rows, out, in, count, element_bytes, result_bytes}); }
  void input_gradient(KernelTime& time) const { run(time, {rows, in, out, count, element_bytes, result_bytes}); }
  void weight_gradient(KernelTime& time) const {
    run(time, {out, in, rows, count, element_bytes, fused ? gradient_bytes : result_bytes});
    if (!fused) time.memory(count * in * out * (gradient_bytes + result_bytes));
  }
  double input_gradient_s(const Context& c) const {
    return alone(c, {rows, in, out, count, element_bytes, result_bytes});
  }
  double weight_gradient_s(const Context& c) const {
    return alone(c, {out, in, rows, count, element_bytes, gradient_bytes});
  }
  double forward_s(const Context& c) const { return alone(c, {rows, out, in, count, element_bytes, result_bytes}); }

 private:
  // Products of several experts are a kernel each.
  static void run(KernelTime& time, const Product& product) {
    product.count > 1 ? time.grouped(product) : time.product(product);
  }
  static double alone(const Context& c, const Product& product) {
    return product_seconds(c.rates, c.rates.product_flops, product);
  }
};

void add(const KernelTime& time, ChunkWork& work) {
  work.matrix_s += time.matrix_s();
  work.memory_s += time.memory_s();
  work.launch_s += time.launch_s();
}

void add(const Communication& one, Communication& sum) { sum = together(sum, one); }

// ---- attention core ------------------------------------------------------------------------------------------------

struct Core {
  double heads, kv_heads, dim, sequence, samples, cp;
  explicit Core(const Context& c)
      : heads(c.model().heads / c.t),
        kv_heads(std::max(1.0, c.model().kv_heads / c.t)),
        dim(static_cast<double>(c.model().head_dim)),
        sequence(c.training().sequence),
        samples(c.training().micro_batch),
        cp(c.workload.config.cp) {}
  double queries() const { return sequence / cp; }
  double scores() const { return samples * heads * queries() * sequence; }
  double flops() const { return 4 * scores() * dim; }                                    // forward, mask not counted
  double qkv() const { return samples * queries() * dim * (2 * heads + 2 * kv_heads); }  // with the result
};

void core_forward(const Context& c, KernelTime& time) {
  const Core core(c);
  const double causal = c.model().causal ? 0.5 : 1;
  if (c.training().flash_attention) return time.flash(core.flops() * causal, core.qkv() * c.e, false);
  const double batch = core.samples * core.heads;
  time.attention_product({core.queries(), core.sequence, core.dim, batch, c.e, c.e}, c.model().head_dim);
  time.memory(2 * c.e * core.scores());  // scale, mask, softmax
  if (c.model().dropout) time.memory((2 * c.e + 1) * core.scores());
  time.attention_product({core.queries(), core.dim, core.sequence, batch, c.e, c.e}, c.model().head_dim);
}

void core_backward(const Context& c, KernelTime& time) {
  const Core core(c);
  const double causal = c.model().causal ? 0.5 : 1;
  if (c.training().flash_attention) return time.flash(2.5 * core.flops() * causal, 2 * core.qkv() * c.e, true);
  const double batch = core.samples * core.heads;
  time.attention_product({core.queries(), core.sequence, core.dim, batch, c.e, c.e}, c.model().head_dim);
  time.attention_product({core.sequence, core.dim, core.queries(), batch, c.e, c.e}, c.model().head_dim);
  if (c.model().dropout) time.memory((2 * c.e + 1) * core.scores());
  time.memory(3 * c.e * core.scores());
  time.attention_product({core.queries(), core.dim, core.sequence, batch, c.e, c.e}, c.model().head_dim);
  time.attention_product({core.sequence, core.dim, core.queries(), batch, c.e, c.e}, c.model().head_dim);
}

// Keys and values around the ring, each of cp − 1 steps beside a cp-th of attention.
Communication context_ring(const Context& c, double core_s, double factor) {
  const Core core(c);
  if (core.cp <= 1) return {};
  const double bytes = factor * 2 * core.kv_heads * core.dim * core.samples * core.queries() * c.e;
  const Communication step = message(c.links, c.hardware.cp.hosts() > 1, bytes);
  return times(exposed(step, core_s / core.cp), core.cp - 1);
}

// ---- memory-bound kernels ------------------------------------------------------------------------------------------

bool eager(const Context& c) { return c.training().kernels == Kernels::kEager; }
// Scaling has SwiGLU and rotary embedding in PyTorch's own steps, whatever its norm.
bool eager_beside_norm(const Context& c) { return eager(c) || c.scaling; }

// RMSNorm in PyTorch's own steps: to 32 bits, square, mean, product with the inverse root, to 16 bits, times the weight.
// Gated models have it. The gradients of each step read and write twice as much.
std::array<double, 6> eager_norm(const Context& c) { return {c.e + 4, 8, 4, 8, 4 + c.e, 2 * c.e}; }

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
// Gradients of the branch and of the residual meet; dropout's mask is applied again.
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

// FP8 operands: read in 16 bits, written twice, once transposed for the weight gradient.
void cast(const Context& c, double elements, KernelTime& time) {
  if (c.fp8()) time.memory((c.e + 2) * elements);
}

// ---- a block: what lies between two residuals ----------------------------------------------------------------------

// A column-parallel linear layer, what follows it, a row-parallel one. `middle_*` are the kernels between both.
struct Block {
  Linear column, row;
  KernelTime middle_forward, middle_backward, middle_again;  // again: recomputed when recomputation is selective
  double cast_elements;                                      // inputs of the row-parallel layer
  int input_gradients = 1;  // of the column-parallel layer, each summed over tp by itself
};

// What is left of a collective beside a product, where the code overlaps from `from` on.
Communication beside(const Context& c, Overlap from, const Communication& whole, double work_s, double first = 0) {
  return c.training().overlap >= from ? exposed(whole, work_s, first) : whole;
}

void block_forward(const Context& c, const Block& block, ChunkWork& work) {
  KernelTime time(c.rates);
  norm_forward(c, time);
  block.column.forward(time);
  cast(c, block.cast_elements, time);
  block.row.forward(time);
  residual_forward(c, time);
  add(time, work);
  add(block.middle_forward, work);
  if (c.t <= 1) return;
  if (!c.sequence_parallel) return add(c.tensor(Collective::kAllReduce), work.tp);
  const Communication gather = c.tensor(Collective::kAllGather), scatter = c.tensor(Collective::kReduceScatter);
  add(beside(c, Overlap::kAll, gather, block.column.forward_s(c)), work.tp);
  add(beside(c, Overlap::kAll, scatter, block.row.forward_s(c), 1 / c.t), work.tp);
}

void block_backward(const Context& c, const Block& block, ChunkWork& work) {
  KernelTime time(c.rates);
  residual_backward(c, time);
  cast(c, block.row.rows * block.row.out + block.column.rows * block.column.out, time);
  block.row.input_gradient(time);
  block.row.weight_gradient(time);
  block.column.input_gradient(time);
  block.column.weight_gradient(time);
  norm_backward(c, time);
  add(time, work);
  add(block.middle_backward, work);
  if (c.t <= 1) return;
  const double column_weight_s = block.column.weight_gradient_s(c);
  if (!c.sequence_parallel) {
    const Communication sum = times(c.tensor(Collective::kAllReduce), block.input_gradients);
    return add(beside(c, Overlap::kWeightGradients, sum, column_weight_s), work.tp);
  }
  const Communication gather = c.tensor(Collective::kAllGather), scatter = c.tensor(Collective::kReduceScatter);
  add(beside(c, Overlap::kAll, gather, block.row.input_gradient_s(c)), work.tp);
  // Inputs are gathered again, unless they were kept.
  if (!c.scaling) add(beside(c, Overlap::kWeightGradients, gather, block.column.input_gradient_s(c)), work.tp);
  add(beside(c, Overlap::kWeightGradients, scatter, column_weight_s), work.tp);
}

// ---- experts -------------------------------------------------------------------------------------------------------

struct Experts {
  double routed;  // token copies that a rank sends to experts
  double rows;    // token copies that each local expert gets
  double local;   // experts on a rank
  double etp;
  explicit Experts(const Context& c) {
    const collection::ParallelConfig& config = c.workload.config;
    etp = config.etp;
    local = static_cast<double>(c.model().experts) / config.ep;
    routed = c.tokens / c.t * c.model().experts_per_token;
    rows = routed * etp / local;
  }
};

Communication expert_trip(const Context& c, const Experts& experts, Collective over_etp) {
  const double bytes = experts.routed * c.h * c.e, k = c.model().experts_per_token;
  const Communication sent = c.training().dispatch == Dispatch::kOnce
                                 ? dispatch_once(c.links, c.hardware.ep, bytes / k, k)
                                 : collective(c.links, Collective::kAllToAll, c.hardware.ep, bytes);
  return together(sent, collective(c.links, over_etp, c.hardware.etp, bytes * experts.etp));
}

// There and back. Overlapped, beside as much work of another micro-batch as this layer has.
void add_trips(const Context& c, const Experts& experts, ChunkWork& work) {
  const Communication both =
      together(expert_trip(c, experts, Collective::kAllGather), expert_trip(c, experts, Collective::kReduceScatter));
  add(c.training().expert_overlap ? exposed(both, work.compute_s()) : both, work.ep);
}

// FP8: each local expert's rows are cast by kernels of their own before each of two products.
void cast_experts(const Context& c, const Experts& experts, KernelTime& time) {
  if (c.fp8()) time.launched(2 * kCastKernels * experts.local);
}

void experts_forward(const Context& c, ChunkWork& work) {
  const Experts experts(c);
  const double ffn = static_cast<double>(c.model().ffn) / experts.etp;
  KernelTime time(c.rates);
  norm_forward(c, time);
  time.product({c.outside, static_cast<double>(c.model().experts), c.h, 1, c.e, 4});
  time.memory(2 * c.e * experts.routed * c.h);  // permuted
  time.launched(kRoutingForward);
  cast_experts(c, experts, time);
  Linear(c, experts.rows, c.h, ffn * (c.model().gated ? 2 : 1), experts.local).forward(time);
  activation_forward(c, experts.rows * experts.local, ffn, time);
  cast(c, experts.rows * experts.local * ffn, time);
  Linear(c, experts.rows, ffn, c.h, experts.local).forward(time);
  time.memory(2 * c.e * experts.routed * c.h);  // weighted and added up
  residual_forward(c, time);
  add(time, work);
  add_trips(c, experts, work);
}

void experts_backward(const Context& c, ChunkWork& work) {
  const Experts experts(c);
  const double ffn = static_cast<double>(c.model().ffn) / experts.etp;
  const Linear first(c, experts.rows, c.h, ffn * (c.model().gated ? 2 : 1), experts.local);
  const Linear second(c, experts.rows, ffn, c.h, experts.local);
  KernelTime time(c.rates);
  residual_backward(c, time);
  time.memory(2 * 2 * c.e * experts.routed * c.h);
  time.launched(kRoutingBackward);
  cast_experts(c, experts, time);
  for (const Linear* linear : {&second, &first}) {
    cast(c, linear->rows * linear->count * linear->out, time);
    linear->input_gradient(time);
    linear->weight_gradient(time);
  }
  activation_backward(c, experts.rows * experts.local, ffn, time);
  for (int i = 0; i < 2; ++i) time.product({c.outside, static_cast<double>(c.model().experts), c.h, 1, c.e, 4});
  norm_backward(c, time);
  add(time, work);
  add_trips(c, experts, work);
}

// ---- both blocks of a layer ----------------------------------------------------------------------------------------

Block attention_block(const Context& c) {
  const ModelShape& m = c.model();
  const double q = static_cast<double>(m.heads * m.head_dim) / c.t;
  const double kv = 2 * std::max(1.0, m.kv_heads / c.t) * static_cast<double>(m.head_dim);
  Block block{.column = Linear(c, c.tokens, c.h, q + kv),
              .row = Linear(c, c.tokens, q, c.h),
              .middle_forward = KernelTime(c.rates),
              .middle_backward = KernelTime(c.rates),
              .middle_again = KernelTime(c.rates),
              .cast_elements = c.tokens * q};
  rotary(c, block.middle_forward);
  core_forward(c, block.middle_forward);
  core_backward(c, block.middle_backward);
  rotary(c, block.middle_backward);
  core_forward(c, block.middle_again);
  return block;
}

Block feed_forward_block(const Context& c) {
  const double ffn = static_cast<double>(c.model().ffn) / c.t;
  Block block{.column = Linear(c, c.tokens, c.h, ffn * (c.model().gated ? 2 : 1)),
              .row = Linear(c, c.tokens, ffn, c.h),
              .middle_forward = KernelTime(c.rates),
              .middle_backward = KernelTime(c.rates),
              .middle_again = KernelTime(c.rates),
              .cast_elements = c.tokens * ffn,
              .input_gradients = c.scaling && c.model().gated ? 2 : 1};
  activation_forward(c, c.tokens, ffn, block.middle_forward);
  activation_backward(c, c.tokens, ffn, block.middle_backward);
  return block;
}

}  // namespace

Communication exposed(const Communication& whole, double beside_s, double first) {
  if (whole.seconds <= 0) return whole;
  const double share = std::max({kOverlapCost, first, (whole.seconds - beside_s) / whole.seconds});
  return times(whole, std::min(1.0, share));
}

ChunkWork times(const ChunkWork& one, double times_) {
  return {.matrix_s = one.matrix_s * times_,
          .memory_s = one.memory_s * times_,
          .launch_s = one.launch_s * times_,
          .tp = times(one.tp, times_),
          .cp = times(one.cp, times_),
          .ep = times(one.ep, times_),
          .dp = times(one.dp, times_)};
}

ChunkWork together(const ChunkWork& a, const ChunkWork& b) {
  return {.matrix_s = a.matrix_s + b.matrix_s,
          .memory_s = a.memory_s + b.memory_s,
          .launch_s = a.launch_s + b.launch_s,
          .tp = together(a.tp, b.tp),
          .cp = together(a.cp, b.cp),
          .ep = together(a.ep, b.ep),
          .dp = together(a.dp, b.dp)};
}

LayerWork layer_work(const Workload& workload, const Hardware& hardware, const StageGpu& gpu) {
  const Context c(workload, hardware, gpu);
  const Block attention = attention_block(c);
  LayerWork work;
  block_forward(c, attention, work.forward);
  block_backward(c, attention, work.backward);
  work.forward.cp = context_ring(c, attention.middle_again.seconds(), 1);
  work.backward.cp = context_ring(c, attention.middle_backward.seconds(), 2);
  if (workload.model.experts > 0) {
    experts_forward(c, work.forward);
    experts_backward(c, work.backward);
  } else {
    const Block feed_forward = feed_forward_block(c);
    block_forward(c, feed_forward, work.forward);
    block_backward(c, feed_forward, work.backward);
  }
  const Recompute recompute = workload.training.recompute;
  if (recompute == Recompute::kSelective) add(attention.middle_again, work.backward);
  if (recompute == Recompute::kFull) work.backward = together(work.backward, work.forward);
  return work;
}

LayerWork first_work(const Workload& workload, const Hardware& hardware, const StageGpu& gpu) {
  const Context c(workload, hardware, gpu);
  LayerWork work;
  KernelTime forward(c.rates), backward(c.rates);
  forward.memory(2 * c.e * c.tokens * c.h);
  if (c.model().dropout) forward.memory((2 * c.e + 1) * c.outside * c.h);
  if (c.model().dropout) backward.memory((2 * c.e + 1) * c.outside * c.h);
  backward.memory((c.e + c.gradient_bytes()) * c.tokens * c.h);
  add(forward, work.forward);
  add(backward, work.backward);
  const Collective kind = c.sequence_parallel ? Collective::kReduceScatter : Collective::kAllReduce;
  work.forward.tp = c.tensor(kind);
  if (c.sequence_parallel) work.backward.tp = c.tensor(Collective::kAllGather);
  return work;
}

LayerWork last_work(const Workload& workload, const Hardware& hardware, const StageGpu& gpu) {
  const Context c(workload, hardware, gpu);
  const double vocab = static_cast<double>(c.model().vocab) / c.t, logits = c.tokens * vocab;
  // Logits stay in 16 bits also where the layers are FP8; the loss is in 32.
  const Product product{c.tokens, vocab, c.h, 1, c.e, c.e};
  LayerWork work;
  KernelTime forward(c.rates), backward(c.rates);
  norm_forward(c, forward);
  forward.product_in_16_bits(product);
  // Megatron's loss, in 32 bits and a kernel each: to 32 bits, maximum, difference, exponential, sum, quotient; back:
  // copy, scale, to 16 bits.
  forward.memory((c.e + 4) * logits);
  for (const double passes : {1, 2, 2, 1, 2}) forward.memory(4 * passes * logits);
  for (const double bytes : {8.0, 8.0, 4 + c.e}) backward.memory(bytes * logits);
  backward.product_in_16_bits({c.tokens, c.h, vocab, 1, c.e, c.e});
  backward.product_in_16_bits({vocab, c.h, c.tokens, 1, c.e, c.gradient_bytes()});
  norm_backward(c, backward);
  add(forward, work.forward);
  add(backward, work.backward);
  if (c.t <= 1) return work;
  if (c.sequence_parallel) {
    work.forward.tp = c.tensor(Collective::kAllGather);
    work.backward.tp = c.tensor(Collective::kReduceScatter);
  } else {
    work.backward.tp = c.tensor(Collective::kAllReduce);
  }
  return work;
}

}  // namespace scalai::parallel
