#include "ptc/cost/step/layer_work.h"

#include <algorithm>
#include <vector>

#include "ptc/cost/step/internal/expert_kernels.h"
#include "ptc/cost/step/internal/layer_kernels.h"

namespace scalai::step {
namespace {

using namespace internal;

// A collective's kernels take some of the multiprocessors and of the memory bandwidth from the product beside it.
constexpr double kOverlapCost = 0.15;
// Small kernels of routing, permutation and the counts of tokens for a layer and micro-batch, forward and backward. A
// profile of Qwen3-30B on 16 H100 has 463,348 kernels in a step of 64 micro-batches and 48 layers (Megatron-Bridge):
// 151 a layer, of which some 30 are the other block's and norms, and 48 products of eight local experts.
constexpr double kRoutingForward = 30, kRoutingBackward = 43;

// Keys and values around the ring, each of cp − 1 steps beside a cp-th of attention.
Communication context_ring(const Context& c, double core_s, double factor) {
  const Core core(c);
  if (core.cp <= 1) return {};
  const double bytes = factor * 2 * core.kv_heads * core.dim * core.samples * core.queries() * c.e;
  const Communication step = message(c.links, c.hardware.cp.hosts() > 1, bytes);
  return times(exposed(step, core_s / core.cp), core.cp - 1);
}

// ---- a block: what lies between two residuals ----------------------------------------------------------------------

// A column-parallel linear layer, what follows it, a row-parallel one. `middle_*` are the kernels between both.
struct Block {
  Linear column, row;
  KernelTime middle_forward, middle_backward;
  double cast_elements;     // inputs of the row-parallel layer
  int input_gradients = 1;  // of the column-parallel layer, each summed over tp by itself
};

// What is left of a collective beside a product, where the code overlaps from `from` on.
Communication beside(const Context& c, Overlap from, const Communication& whole, double work_s, double first = 0) {
  return c.training().overlap >= from ? exposed(whole, work_s, first) : whole;
}

// Without norm and residual.
void inner_forward(const Context& c, const Block& block, ChunkWork& work) {
  KernelTime time(c.rates);
  block.column.forward(time);
  cast(c, block.cast_elements, time);
  block.row.forward(time);
  add(time, work);
  add(block.middle_forward, work);
  if (c.t <= 1) return;
  if (!c.sequence_parallel) return add(c.tensor(Collective::kAllReduce), work.tp);
  const Communication gather = c.tensor(Collective::kAllGather), scatter = c.tensor(Collective::kReduceScatter);
  add(beside(c, Overlap::kAll, gather, block.column.forward_s(c)), work.tp);
  add(beside(c, Overlap::kAll, scatter, block.row.forward_s(c), 1 / c.t), work.tp);
}

// One pass, norm_forward or norm_backward, of the norms of a block.
void add_norms(const Context& c, void (*pass)(const Context&, KernelTime&), ChunkWork& work) {
  KernelTime norm(c.rates);
  pass(c, norm);
  ChunkWork each;
  add(norm, each);
  work = together(work, times(each, c.model().blocks.norms));
}

void norm_and_residual(const Context& c, ChunkWork& work) {
  add_norms(c, norm_forward, work);
  KernelTime time(c.rates);
  residual_forward(c, time);
  add(time, work);
}

void block_forward(const Context& c, const Block& block, ChunkWork& work) {
  inner_forward(c, block, work);
  norm_and_residual(c, work);
}

void inner_backward(const Context& c, const Block& block, ChunkWork& work) {
  KernelTime time(c.rates);
  cast(c, block.row.rows * block.row.out + block.column.rows * block.column.out, time);
  block.row.input_gradient(time);
  block.row.weight_gradient(time);
  block.column.input_gradient(time);
  block.column.weight_gradient(time);
  add(time, work);
  work.weights_s += block.row.weight_gradient_s(c) + block.column.weight_gradient_s(c);
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

void block_backward(const Context& c, const Block& block, ChunkWork& work) {
  inner_backward(c, block, work);
  KernelTime time(c.rates);
  residual_backward(c, time);
  add(time, work);
  add_norms(c, norm_backward, work);
}

// ---- experts -------------------------------------------------------------------------------------------------------

Communication expert_trip(const Context& c, const Experts& experts, Collective over_etp) {
  const double bytes = experts.routed * c.h * c.e, k = c.model().experts_per_token;
  const Communication sent = c.training().dispatch == Dispatch::kOnce
                                 ? dispatch_once(c.links, c.hardware.ep, bytes / k, k)
                                 : collective(c.links, Collective::kAllToAll, c.hardware.ep, bytes);
  return together(sent, collective(c.links, over_etp, c.hardware.etp, bytes * experts.etp));
}

void add_trips(const Context& c, const Experts& experts, ChunkWork& work) {
  add(expert_trip(c, experts, Collective::kAllGather), work.ep);
  add(expert_trip(c, experts, Collective::kReduceScatter), work.ep);
}

// Megatron-Core's order (TransformerLayerSchedulePlan::run) for this layer forward beside another micro-batch's
// backward:
//   network     gradients back from   |  tokens there,            |  results back
//               the router's ranks    |  then their gradients     |
//   GPU         attention             |  experts backward,        |  attention
//               forward               |  then forward             |  backward
// `work` is that of the experts.
void overlap_trips(const Context& c, const Experts& experts, const LayerWork& others, LayerWork& work) {
  const Communication there = expert_trip(c, experts, Collective::kAllGather);
  const Communication back = expert_trip(c, experts, Collective::kReduceScatter);
  const double sparse_forward_s = work.forward.seconds(), sparse_backward_s = work.backward.seconds();
  add(exposed(there, sparse_backward_s), work.forward.ep);
  add(exposed(back, others.backward.seconds()), work.forward.ep);
  add(exposed(back, others.forward.seconds()), work.backward.ep);
  add(exposed(there, sparse_forward_s), work.backward.ep);
}

// Router, permutation and products of the experts, without what their messages take.
void experts_compute(const Context& c, const Experts& experts, ChunkWork& work) {
  KernelTime time(c.rates);
  time.product({c.outside, static_cast<double>(c.model().experts), c.h, 1, c.e, 4});
  time.memory(2 * c.e * experts.routed * c.h);  // permuted
  time.launched(kRoutingForward);
  sort_by_expert(c, experts, time);
  pad_experts(c, experts, time);
  cast_experts(c, experts, time);
  cast(c, experts.rows * experts.local * c.h, time);  // no norm writes it, as before dense products
  experts.first(c).forward(time);
  expert_activation(c, experts, time);
  experts.second(c).forward(time);
  add_expert_biases(c, experts, time);
  time.memory(2 * c.e * experts.routed * c.h);  // weighted and added up
  add(time, work);
}

void experts_forward(const Context& c, ChunkWork& work) {
  const Experts experts(c);
  experts_compute(c, experts, work);
  norm_and_residual(c, work);
}

void experts_backward(const Context& c, ChunkWork& work) {
  const Experts experts(c);
  const Linear first = experts.first(c), second = experts.second(c);
  KernelTime time(c.rates);
  residual_backward(c, time);
  time.memory(2 * 2 * c.e * experts.routed * c.h);
  time.launched(kRoutingBackward);
  sort_by_expert(c, experts, time);
  pad_experts(c, experts, time);
  cast_experts(c, experts, time);
  sum_expert_biases(c, experts, time);
  for (const Linear* linear : {&second, &first}) {
    cast(c, linear->rows * linear->count * linear->out, time);
    linear->input_gradient(time);
    linear->weight_gradient(time);
  }
  work.weights_s += first.weight_gradient_s(c) + second.weight_gradient_s(c);
  activation_backward(c, experts.rows * experts.local, experts.ffn, time);
  clamp_backward(c, experts.rows * experts.local * experts.ffn, time);
  for (int i = 0; i < 2; ++i) time.product({c.outside, static_cast<double>(c.model().experts), c.h, 1, c.e, 4});
  add(time, work);
  add_norms(c, norm_backward, work);
}

Block feed_forward_block(const Context& c, int64_t width) {
  const double ffn = static_cast<double>(width) / c.t;
  Block block{.column = Linear(c, c.tokens, c.h, ffn * (c.model().gated ? 2 : 1)),
              .row = Linear(c, c.tokens, ffn, c.h),
              .middle_forward = KernelTime(c.rates),
              .middle_backward = KernelTime(c.rates),
              .cast_elements = c.tokens * ffn,
              .input_gradients = (c.scaling || c.internevo) && c.model().gated ? 2 : 1};
  activation_forward(c, c.tokens, ffn, block.middle_forward);
  activation_backward(c, c.tokens, ffn, block.middle_backward);
  return block;
}

// A block of experts, beside which `others` run: what the layer has for each of them.
LayerWork sparse_block(const Context& c, const LayerWork& others) {
  const Experts experts(c);
  LayerWork work;
  experts_forward(c, work.forward);
  experts_backward(c, work.backward);
  if (c.model().shared_ffn > 0) {
    const Block shared = feed_forward_block(c, c.model().shared_ffn);
    inner_forward(c, shared, work.forward);
    inner_backward(c, shared, work.backward);
  }
  if (c.training().expert_overlap) {
    overlap_trips(c, experts, others, work);
    return work;
  }
  add_trips(c, experts, work.forward);
  add_trips(c, experts, work.backward);
  return work;
}

LayerWork dense_block(const Context& c, const Block& block) {
  LayerWork work;
  block_forward(c, block, work.forward);
  block_backward(c, block, work.backward);
  return work;
}

// ---- the blocks of a layer -----------------------------------------------------------------------------------------

Block attention_block(const Context& c) {
  const ModelShape& m = c.model();
  const double q = static_cast<double>(m.heads * m.head_dim) / c.t;
  const double kv = 2 * std::max(1.0, m.kv_heads / c.t) * static_cast<double>(m.head_dim);
  // The four or five products of latent attention count as one of as many operations.
  const double latent =
      (static_cast<double>(m.attention_in_params) / c.t + static_cast<double>(m.attention_whole_params)) / c.h;
  Block block{.column = Linear(c, c.tokens, c.h, m.latent ? latent : q + kv),
              .row = Linear(c, c.tokens, static_cast<double>(m.attention_out_params) / c.h / c.t, c.h),
              .middle_forward = KernelTime(c.rates),
              .middle_backward = KernelTime(c.rates),
              .cast_elements = c.tokens * q};
  block.column.adapted = block.column.frozen;
  // Norms of queries and keys, one kernel each way and 2 elements moved forward, 5 backward.
  const double normed = m.query_norms ? c.tokens * (q + kv / 2) : 0;
  block.middle_forward.memory(2 * c.e * normed);
  rotary(c, block.middle_forward);
  core_forward(c, block.middle_forward);
  core_backward(c, block.middle_backward);
  rotary(c, block.middle_backward);
  block.middle_backward.memory(5 * c.e * normed);
  return block;
}

// Mamba-2: z, x, B, C and the time steps by one matrix, its scan, a gated norm, a matrix back.
Block state_space_block(const Context& c) {
  const StateSpace& s = c.model().state_space;
  const double inner = static_cast<double>(s.inner) / c.t;
  Block block{.column = Linear(c, c.tokens, c.h, static_cast<double>(s.columns()) / c.t),
              .row = Linear(c, c.tokens, inner, c.h),
              .middle_forward = KernelTime(c.rates),
              .middle_backward = KernelTime(c.rates),
              .cast_elements = c.tokens * inner};
  scan_forward(c, block.middle_forward);
  scan_backward(c, block.middle_backward);
  return block;
}

// ---- what the backward pass computes again --------------------------------------------------------------------------

KernelTime core_again(const Context& c) {
  KernelTime time(c.rates);
  core_forward(c, time);
  return time;
}

// Latent attention's products from its vectors, as one of as many operations.
void latent_up_again(const Context& c, ChunkWork& work) {
  KernelTime time(c.rates);
  Linear(c, c.tokens, c.h, static_cast<double>(c.model().attention_in_params) / c.h / c.t).forward(time);
  rotary(c, time);
  add(time, work);
}

// Recompute::Kind::kModules.
void modules_again(const Context& c, ChunkWork& work) {
  const Recompute& recompute = c.training().recompute;
  const Blocks& blocks = c.model().blocks;
  ChunkWork norm, attention, dense, activation, sparse;  // of each such block
  KernelTime norm_time(c.rates), activation_time(c.rates);
  if (recompute.has(Recompute::kNorms)) norm_forward(c, norm_time);
  add(norm_time, norm);
  if (recompute.has(Recompute::kCoreAttention)) add(core_again(c), attention);
  if (recompute.has(Recompute::kLatentUp) && c.model().latent) latent_up_again(c, attention);
  if (recompute.has(Recompute::kFeedForward) && blocks.dense > 0)
    inner_forward(c, feed_forward_block(c, c.model().dense_ffn), dense);
  if (blocks.sparse > 0 && recompute.has(Recompute::kExpertActivation))
    expert_activation(c, Experts(c), activation_time);
  add(activation_time, activation);
  if (blocks.sparse > 0 && recompute.has(Recompute::kExperts)) {
    experts_compute(c, Experts(c), sparse);
    add_trips(c, Experts(c), sparse);
  }
  for (const auto& [block, count] : {std::pair(norm, blocks.all()),
                                     {attention, blocks.attention},
                                     {dense, blocks.dense},
                                     {activation, blocks.sparse},
                                     {sparse, blocks.sparse}})
    work = together(work, times(block, count));
}

// Recompute::Kind::kOperations. Products in their order are queries, keys, values, projection and those of the
// feed-forward block, a matrix each; the second, fourth … are computed again. Products of experts go by another name
// than those that count, so all of them are.
void operations_again(const Context& c, ChunkWork& work) {
  const Blocks& blocks = c.model().blocks;
  const Core core(c);
  KernelTime norm(c.rates), keys(c.rates), dense(c.rates);
  norm_forward(c, norm);
  const Block attention = attention_block(c);
  Linear(c, c.tokens, c.h, core.kv_heads * core.dim).forward(keys);
  rotary(c, keys);
  cast(c, attention.cast_elements, keys);
  attention.row.forward(keys);
  residual_forward(c, keys);
  const Block feed_forward = feed_forward_block(c, c.model().dense_ffn);
  const double ffn = feed_forward.row.in;
  c.model().gated ? Linear(c, c.tokens, c.h, ffn).forward(dense) : feed_forward.row.forward(dense);
  activation_forward(c, c.tokens, ffn, dense);
  cast(c, feed_forward.cast_elements, dense);
  ChunkWork each_norm, each_attention, each_dense, each_sparse;
  add(norm, each_norm);
  add(keys, each_attention);
  if (blocks.dense > 0) add(dense, each_dense);
  if (blocks.sparse > 0) experts_compute(c, Experts(c), each_sparse);
  for (const auto& [block, count] : {std::pair(each_norm, blocks.all()),
                                     {each_attention, blocks.attention},
                                     {each_dense, blocks.dense},
                                     {each_sparse, blocks.sparse}})
    work = together(work, times(block, count));
}

}  // namespace

Communication exposed(const Communication& whole, double beside_s, double first) {
  if (whole.seconds <= 0) return whole;
  const double share = std::max({kOverlapCost, first, (whole.seconds - beside_s) / whole.seconds});
  return times(whole, std::min(1.0, share));
}

ChunkWork times(const ChunkWork& one, double factor) {
  return {.matrix_s = one.matrix_s * factor,
          .memory_s = one.memory_s * factor,
          .launch_s = one.launch_s * factor,
          .tp = times(one.tp, factor),
          .cp = times(one.cp, factor),
          .ep = times(one.ep, factor),
          .dp = times(one.dp, factor),
          .weights_s = one.weights_s * factor};
}

ChunkWork together(const ChunkWork& a, const ChunkWork& b) {
  return {.matrix_s = a.matrix_s + b.matrix_s,
          .memory_s = a.memory_s + b.memory_s,
          .launch_s = a.launch_s + b.launch_s,
          .tp = together(a.tp, b.tp),
          .cp = together(a.cp, b.cp),
          .ep = together(a.ep, b.ep),
          .dp = together(a.dp, b.dp),
          .weights_s = a.weights_s + b.weights_s};
}

LayerWork times(const LayerWork& one, double factor) {
  return {times(one.forward, factor), times(one.backward, factor)};
}
LayerWork together(const LayerWork& a, const LayerWork& b) {
  return {together(a.forward, b.forward), together(a.backward, b.backward)};
}

LayerWork layer_work(const Workload& workload, const Hardware& hardware, const StageGpu& gpu) {
  const Context c(workload, hardware, gpu);
  const Blocks& blocks = c.model().blocks;
  LayerWork work;
  if (blocks.attention > 0) {
    const Block attention = attention_block(c);
    LayerWork each = dense_block(c, attention);
    each.forward.cp = context_ring(c, core_again(c).seconds(), 1);
    each.backward.cp = context_ring(c, attention.middle_backward.seconds(), 2);
    work = times(each, blocks.attention);
  }
  if (blocks.state_space > 0) work = together(work, times(dense_block(c, state_space_block(c)), blocks.state_space));
  if (blocks.dense > 0)
    work = together(work, times(dense_block(c, feed_forward_block(c, c.model().dense_ffn)), blocks.dense));
  if (blocks.sparse > 0) work = together(work, times(sparse_block(c, times(work, 1 / blocks.sparse)), blocks.sparse));
  switch (workload.training.recompute.kind) {
    case Recompute::Kind::kNothing: break;
    case Recompute::Kind::kModules: modules_again(c, work.backward); break;
    case Recompute::Kind::kOperations: operations_again(c, work.backward); break;
    case Recompute::Kind::kLayers: work.backward = together(work.backward, work.forward);
  }
  return work;
}

}  // namespace scalai::step
