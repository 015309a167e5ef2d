#pragma once
// Time of a training step: the work of each pipeline chunk on a GPU (compute kernels, memory-bound kernels,
// collectives), and a closed form for its schedule. The same parts feed the simulated iteration (sim/iteration.h), so
// both agree if no links are contended. Plain values and pure functions; any thread may call them.

#include <vector>

#include "ptc/cost/step/hardware.h"
#include "ptc/cost/step/training.h"

namespace scalai::step {

// Traffic of one rank in a collective, or of a point-to-point message. `bytes` contains the overhead of the protocol: a
// rank alone on its link takes latency_s + bytes / (nominal rate of the link). `seconds` is that time, with a network
// that is slower than all NICs together (Group::fabric_share) divided evenly among those that cross it.
struct Communication {
  enum class Link { kNone, kGpuLink, kNetwork };
  Link link = Link::kNone;  // the limiting link
  double latency_s = 0;     // of all steps of the algorithm and all repetitions
  double bytes = 0;         // through that link, per direction, of all repetitions
  double seconds = 0;
};

// One micro-batch through one chunk of layers, in one direction, on one rank. Communication here is the part that no
// parallel product hides, and at least the slowdown of that product (layer_work.cpp).
struct ChunkWork {
  double matrix_s = 0;  // matrix products and attention
  double memory_s = 0;  // norms, activations, residuals; includes recomputed ones
  double launch_s = 0;  // gaps between kernels, and kernels too short to hide their launch
  Communication tp, cp, ep;
  // For each micro-batch, the ends of the model included: ZeRO-3 gathers parameters, and gradients that a rank does not
  // keep whole are scattered (shards_gradients in memory.h).
  Communication dp;
  double weights_s = 0;  // part of matrix_s: gradients of weights
  double compute_s() const { return matrix_s + memory_s + launch_s; }
  double seconds() const { return compute_s() + tp.seconds + cp.seconds + ep.seconds + dp.seconds; }
};

// All work of a step on the ranks of one pipeline stage. Vectors have one entry for each chunk (vpp).
struct StageWork {
  // backward includes recomputation. The ends of the model are in their chunks.
  std::vector<ChunkWork> forward, backward;
  // Activations of a micro-batch to the next stage, or its gradients back from there; one direction. Last stage: to the
  // next chunk of the first stage.
  Communication send;
  Communication gradients, parameters;  // over dp, once a step: reduce-scatter or all-reduce; all-gather (ZeRO-1 and 2)
  Communication embedding;              // tied embedding: sum over both ends, after `gradients`
  double optimizer_s = 0;
};

// Order of the parts, the same in the closed form and in the simulated iteration:
// - A stage works through slots_of(). The message of a slot leaves when its work is done, and the receiver waits for
//   it. The sender continues at once; with sends_block, and in an interleaved pipeline without sends_hidden, it waits
//   for the arrival. The last chunk sends nothing forward, the first nothing backward.
// - `gradients` are summed beside the backward slots of the last micro-batch (2BW: beside the whole next step).
//   `parameters` are gathered at the start of the step, beside the forward slots of the first micro-batch. Each chunk
//   has 1/vpp of both: its gradients start after its own last backward slot; its parameters must arrive by the end of
//   its first forward slot. What cannot be hidden, 1 − gradients_hidden and 1 − parameters_hidden of them, runs after
//   the last slot and before the first.
// - After all stages: `embedding` (2BW: also beside the whole next step), then the optimizer.
struct StepParts {
  std::vector<StageWork> stages;  // pp of them
  int micro_batches = 1;
  double gradients_hidden = 0, parameters_hidden = 0;  // shares that work may hide, 0 … 1
  bool sends_hidden = false;                           // interleaved, Overlap::kAll
  bool sends_block = false;                            // frameworks whose stages exchange one thing after the other
  bool sender_waits(int vpp) const { return sends_block || (vpp > 1 && !sends_hidden); }
};
// Precondition, not checked here: check_workload accepts the workload. CHECK: `hardware` has at least one stage.
StepParts step_parts(const Workload& workload, const Hardware& hardware);

// Time of a step and its parts on the slowest stage. The parts add up to step_s.
struct StepTime {
  double step_s = 0;
  double matrix_s = 0, memory_s = 0, launch_s = 0;
  double tp_s = 0, cp_s = 0, ep_s = 0;
  double pipeline_s = 0;   // messages between stages that no work hides
  double bubble_s = 0;     // idle time, also from uneven stages
  double gradients_s = 0;  // dp, embedding and ZeRO gathers that no work hides (ZeRO-3: those of each micro-batch too)
  double optimizer_s = 0;

  double model_flops = 0;     // of the whole step; without recomputation, the causal mask not halved
  double hardware_flops = 0;  // with recomputation
  double mfu = 0, hfu = 0;    // FLOPs / (GPUs · step · peak_flops of the precision: 16-bit, TF32 or FP8 products)
};
// Closed form; the first overload computes step_parts. CHECK: step and peak above 0.
StepTime step_time(const Workload& workload, const Hardware& hardware);
StepTime step_time(const Workload& workload, const Hardware& hardware, const StepParts& parts);

// Model and hardware FLOPs of one step.
//   model     (6 · active parameters without embeddings + 6·h·V + 12·l·h·s) · tokens; for GPT this equals
//             72·B·s·l·h²·(1 + s/(6h) + V/(12lh)) to the printed digits     (Narayanan et al. 2021, Korthikanti et al.
//             2022)
//   hardware  adds recomputation: full, one more forward pass of the layers; selective, the attention core as in
//             72·B·s·l·h²·(1 + s/(3h) + V/(12lh)) (Korthikanti et al. 2022, equation 9)
double model_flops(const ModelShape& model, int global_batch, int sequence, int mtp = 0);
double hardware_flops(const Workload& workload);

}  // namespace scalai::step
