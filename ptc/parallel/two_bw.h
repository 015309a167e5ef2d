#pragma once
// The planner of PipeDream-2BW (Narayanan, Phanishayee, Shi, Chen, Zaharia: Memory-Efficient Pipeline-Parallel DNN Training,
// ICML'21, section 4 and appendix A): w replicas (width) of a pipeline of d stages (depth), micro-batches of b samples, with
// activations recomputed or kept. It tries all of them with the closed forms below, and is here to be compared with
// search(), whose model is finer. Its symbols: m = B/(w·b) micro-batches a batch, W the model's state, A activations.
//
//   time of a micro-batch   t = MAX over stages of max(Tc + Σ Tx, Tg/m)        throughput  w·b/t samples a second
//     Tc   computation of the stage forward and backward, measured there, of our kernels here; · 4/3 when recomputed
//     Tx   2·|A_in + A_out| / bandwidth along the pipeline, where d > 1
//     Tg   gradients of the stage over the replicas: 2(w − 1)/w · |W_stage| / bandwidth across them
//   memory                  2·|W|/d + |A_total| + d·|A_in|     kept;   2·|W|/d + |A_total|/d + d·|A_in|     recomputed
//     |W|        all state of the weights: themselves, gradients, optimizer. That is what the published largest model, some 30
//                billion parameters on 64 GPUs of 16 GB, follows from; the weights alone would allow 100 billion.
//     |A_total|  of one micro-batch through the whole model, |A_in| what enters a stage
//
// Replicas of a stage fill hosts first: the bandwidth across them is the GPU link while w GPUs fit a host, along the pipeline
// while w·d do; else a GPU's share of the network.

#include <vector>

#include "absl/status/statusor.h"
#include "ptc/parallel/search.h"

namespace scalai::parallel {

struct TwoBwPlan {
  int width = 1, depth = 1;
  int micro_batch = 1;
  bool recompute = false;
  // Of the slowest stage, a micro-batch.
  double compute_s = 0, messages_s = 0, gradients_s = 0;  // the last is Tg/m
  double micro_batch_s = 0;                               // t
  double step_s = 0;                                      // m·t
  double memory_bytes = 0;
};

// One point, whether it fits or not. CHECK: sizes of at least 1, depth ≤ layers.
TwoBwPlan two_bw_plan(const ModelShape& model, const SearchSpace& space, int width, int depth, int micro_batch,
                      bool recompute);

// All points that fit the memory, best throughput first; of space are used gpus, all_gpus, host, base, micro_batches,
// memory_bytes and keep. Ties go to the smaller depth, the larger micro-batch, no recomputation.
// Errors (InvalidArgument): check_space; a convolutional model; nothing divides, or nothing fits (with what is nearest).
absl::StatusOr<std::vector<TwoBwPlan>> two_bw_plans(const ModelShape& model, const SearchSpace& space);

}  // namespace scalai::parallel
