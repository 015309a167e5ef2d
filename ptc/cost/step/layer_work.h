#pragma once
// The kernels and collectives of one transformer layer and of both ends of the model, for one micro-batch on one rank.
// Pure functions; any thread may call them.
//
// Symbols: b samples a micro-batch, s tokens (s/cp a rank), h hidden, a heads, t = tp, e bytes an element. Per layer:
//   products    QKV, projection, feed-forward (gated: two matrices in one), each with its input and weight gradients
//   attention   without flash attention: two batched products, a fused scale-mask-softmax and dropout on a·s² scores
//               (Megatron-LM). With it: one kernel that skips the masked half, five products backward for two forward
//   memory      norms (forward 2, backward 5 · e·s·b·h), dropout and residual (3e + mask), activation function, rotary
//               embedding; sequence parallelism divides those between the parallel regions by t
//   tensor      all-reduce after attention and feed-forward, and of both input gradients. With sequence parallelism:
//               all-gather and reduce-scatter around each region; the inputs are gathered again for weight gradients
//   context     keys and values pass around a ring of cp ranks beside attention; backward, their gradients as well
//   experts     router, permutation of tokens, all-to-all to the experts over ep and back, sorted by local expert
//               there, gathered over etp; biases of the second product, and with them clamps before the non-linearity,
//               by kernels of their own; FP8: tokens copied to where products can start
// FP8: memory-bound kernels cast and transpose the operands (Transformer Engine); attention stays in 16 bits.

#include "ptc/cost/step/collectives.h"
#include "ptc/cost/step/kernels.h"
#include "ptc/cost/step/step_time.h"

namespace scalai::step {

struct LayerWork {
  ChunkWork forward;
  ChunkWork backward;  // recomputation included: where whole layers are computed again, of such a layer
};

// One layer on this GPU. `gpu` may be any stage of `hardware`. The dp part is zero in all three results (step_parts).
LayerWork layer_work(const Workload& workload, const Hardware& hardware, const StageGpu& gpu);
// first_work: the embedding. last_work: the final norm, the logits and the loss.
LayerWork first_work(const Workload& workload, const Hardware& hardware, const StageGpu& gpu);
LayerWork last_work(const Workload& workload, const Hardware& hardware, const StageGpu& gpu);

// times: `one`, repeated, by parts too. together: a, then b.
ChunkWork times(const ChunkWork& one, double times);
ChunkWork together(const ChunkWork& a, const ChunkWork& b);
LayerWork times(const LayerWork& one, double times);
LayerWork together(const LayerWork& a, const LayerWork& b);

// The part of `whole` that `beside_s` seconds of parallel work do not hide. It is at least the larger of two shares of
// `whole`: kOverlapCost, the slowdown of the work beside it, and `first`, the part before that work can start.
Communication exposed(const Communication& whole, double beside_s, double first = 0);

}  // namespace scalai::step
