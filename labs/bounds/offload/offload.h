#pragma once
// The host traffic of a training step that keeps part of its memory in the host's: the least for any order, and that of
// the schedule's order. Pure functions; any thread may call them.
//
// The step of a GPU as a computation graph (labs/bounds), with the sizes of memory.h. For layer l and micro-batch j:
//   parameters P_l, optimizer state O_l    inputs; they lie in host memory, or on the GPU since the last step
//   forward    x_lj (what the next layer gets), k_lj (what the backward pass keeps beside x)   from x_(l−1)j and P_l
//   backward   dx_(l−1)j  from dx_lj, k_lj and P_l;   g_lj, gradients summed up,  from dx_lj, k_lj, x_(l−1)j and
//              g_l(j−1)
//   optimizer  P_l and O_l of the next step, from O_l and the gradients: results, on the GPU or in host memory
// k_lj and x_lj come from one pass: k never after x. The head is a layer without k. Of the embedding only the update
// counts: a step looks some rows up. What other stages send is there for nothing, once what they need has been sent.
// What a step makes and forgets at once (recomputed layers, logits, buffers) takes room beside the bytes given here.
// Steps repeat: what stays on the GPU from one step to the next is not moved.
//
// All operations run on the GPU, the optimizer too: with an optimizer on the CPU (ZeRO-Offload) less moves. Every
// micro-batch reads all experts of a layer.
//
// `least` holds for every order of micro-batches, layers and updates, and for moving parts of values, too; not for more
// or less recomputation than the configuration says. Each layer sums its gradients in the order of micro-batches. It
// counts as many micro-batches as kMostOperations allows: to leave some out can only lower it. `schedule` plays
// slots_of() and all updates at the end, with Belady's choice of what leaves (replay.h).

#include "absl/status/statusor.h"
#include "labs/bounds/io_bound.h"
#include "labs/bounds/replay.h"
#include "ptc/cost/step/training.h"

namespace scalai::step::offload {

struct OffloadedStep {
  int stage = 0;
  int64_t state_bytes = 0;       // parameters and optimizer state
  int64_t activation_bytes = 0;  // kept of one micro-batch by the layers of the stage
  int64_t needed_bytes = 0;      // the largest operation's operands
  int micro_batches_counted = 0;
  bounds::IoBound least;       // bytes over the host link, both directions together
  bounds::Transfers schedule;  // loads: host to GPU
};

inline constexpr int32_t kMostOperations = 1000;

// One for each stage. Errors (InvalidArgument): check_workload's, convolutional models, 2BW (two versions of the
// parameters), training that offloads activations already, device_bytes below an operation's operands.
absl::StatusOr<std::vector<OffloadedStep>> offloaded_steps(const Workload& workload, int64_t device_bytes);

}  // namespace scalai::step::offload
