#pragma once
// The planner of PipeDream-2BW (Narayanan, Phanishayee, Shi, Chen, Zaharia: Memory-Efficient Pipeline-Parallel DNN
// Training, ICML'21, section 4 and appendix A): w replicas (width) of a pipeline of d stages (depth), micro-batches of
// b samples, activations recomputed or kept. It tries all combinations with the closed forms below and serves as a
// comparison with search(), which has a finer model. Pure functions; any thread may call them.
// Symbols of the paper: m = B/(w·b) micro-batches a batch, W the model's state, A activations.
//
//   time of a micro-batch   t = MAX over stages of max(Tc + Σ Tx, Tg/m)        throughput  w·b/t samples a second
//     Tc   computation of the stage forward and backward (the paper: measured; here: our kernels); · 4/3 if recomputed
//     Tx   2·|A_in + A_out| / bandwidth along the pipeline, for d > 1
//     Tg   gradients of the stage over the replicas: 2(w − 1)/w · |W_stage| / bandwidth across them
//   memory                  2·|W|/d + |A_total| + d·|A_in|     kept;   2·|W|/d + |A_total|/d + d·|A_in|     recomputed
//     |W|        all state of the weights: parameters, gradients, optimizer. The published largest model, some 30
//                billion parameters on 64 GPUs of 16 GB, follows from this; the weights alone would allow 100 billion.
//     |A_total|  of one micro-batch through the whole model; |A_in| the input of a stage
//
// Replicas of a stage fill hosts first. The bandwidth across them is the GPU link while w GPUs fit a host, and along
// the pipeline while w·d fit; else it is a GPU's share of the network.

#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cost/step/search.h"

namespace scalai::step {

struct TwoBwPlan {
  int width = 1, depth = 1;
  int micro_batch = 1;
  bool recompute = false;
  // Of the slowest stage, for one micro-batch.
  double compute_s = 0, messages_s = 0, gradients_s = 0;  // the last is Tg/m
  double micro_batch_s = 0;                               // t
  double step_s = 0;                                      // m·t
  double memory_bytes = 0;
};

// One point, even if it does not fit. CHECK: check_workload accepts it (sizes of at least 1, depth ≤ layers, width ·
// micro_batch divides the batch).
TwoBwPlan two_bw_plan(const ModelShape& model, const SearchSpace& space, int width, int depth, int micro_batch,
                      bool recompute);

// All points that fit the memory, best throughput first, at most space.keep. Uses gpus, all_gpus, host, base,
// micro_batches, memory_bytes and keep of `space`. Ties go to the smaller depth, the larger micro-batch, no
// recomputation. Errors (InvalidArgument): check_space; a convolutional model; nothing divides; nothing fits (the
// message names the nearest point).
absl::StatusOr<std::vector<TwoBwPlan>> two_bw_plans(const ModelShape& model, const SearchSpace& space);

}  // namespace scalai::step
