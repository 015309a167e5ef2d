#pragma once
// The kernels and collectives of one transformer layer and of both ends of the model, for one micro-batch on one rank.
//
// With b samples a micro-batch, s tokens (s/cp a rank), h hidden, t = tp, e bytes an element, per layer:
//   products    QKV, projection, feed-forward (gated: two matrices in one), each with its input and weight gradients
//   attention   without flash attention two batched products, a fused scale-mask-softmax and dropout on a·s² scores
//               (Megatron-LM); with it one kernel that skips what the causal mask hides, five products backward for two
//               forward
//   memory      norms (forward 2, backward 5 · e·s·b·h), dropout-and-residual (3e + mask), activation function, rotary
//               embedding; divided by t with sequence parallelism where they lie between the parallel regions
//   tensor      all-reduce after attention and feed-forward, and of both input gradients; with sequence parallelism
//               all-gather and reduce-scatter around each region, the inputs gathered again for the weights' gradient
//   context     keys and values go around a ring of cp ranks beside attention, with their gradients on the way back
//   experts     router, tokens permuted and sent to their experts over ep and back, gathered over etp
// FP8: operands cast and transposed by memory-bound kernels (Transformer Engine), attention stays in 16 bits.

#include "ptc/parallel/collectives.h"
#include "ptc/parallel/kernels.h"
#include "ptc/parallel/step_time.h"

namespace scalai::parallel {

struct LayerWork {
  ChunkWork forward;
  ChunkWork backward;  // with what is computed again
};

// One layer on this GPU.
LayerWork layer_work(const Workload& workload, const Hardware& hardware, const StageGpu& gpu);
// The embedding before the first layer; the final norm, logits and loss behind the last.
LayerWork first_work(const Workload& workload, const Hardware& hardware, const StageGpu& gpu);
LayerWork last_work(const Workload& workload, const Hardware& hardware, const StageGpu& gpu);

// `times` one after the other; both after one another.
ChunkWork times(const ChunkWork& one, double times);
ChunkWork together(const ChunkWork& a, const ChunkWork& b);

// What is left of a communication that runs beside `beside_s` of work: what the work does not cover, at least the part
// that slowing the work down costs (kOverlapCost) or that comes before there is work (`first`, a share).
Communication exposed(const Communication& whole, double beside_s, double first = 0);

}  // namespace scalai::parallel
