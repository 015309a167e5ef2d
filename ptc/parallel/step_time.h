#pragma once
// How long a training step takes: the work of each pipeline chunk on a GPU (kernels that compute, kernels that move
// memory, collectives), and a closed form for how the schedule puts it together. The same parts feed the simulated
// iteration (sim/iteration.h), so that both agree where nothing contends.

#include <string>
#include <vector>

#include "ptc/parallel/hardware.h"
#include "ptc/parallel/training.h"

namespace scalai::parallel {

// Traffic of one rank in a collective, or of a point-to-point message. What the protocol costs is in `bytes`: a rank
// alone on its link takes latency_s + bytes / (the link's nominal rate). `seconds` is that, with a network that has
// less for all hosts at once than their cards (Hardware::fabric_share) shared out evenly.
struct Communication {
  enum class Link { kNone, kGpuLink, kNetwork };
  Link link = Link::kNone;  // the one that bounds it
  double latency_s = 0;     // all steps of the algorithm, all `times`
  double bytes = 0;         // through that link, per direction, all `times`
  double seconds = 0;
};

// One micro-batch through one chunk of layers, in one direction, on one rank. What runs beside a product is hidden by
// it; the communication here is what is left, at least the part that slows down the product beside it (layer_work.cpp).
struct ChunkWork {
  double matrix_s = 0;  // matrix products and attention
  double memory_s = 0;  // norms, activations, residuals, recomputed ones included
  double launch_s = 0;  // gaps between kernels, and kernels too short to hide their launch
  Communication tp, cp, ep;
  // For each micro-batch: ZeRO-3 gathers parameters; gradients that are not kept whole (shards_gradients in memory.h)
  // are scattered. Both ends' too.
  Communication dp;
  double compute_s() const { return matrix_s + memory_s + launch_s; }
  double seconds() const { return compute_s() + tp.seconds + cp.seconds + ep.seconds + dp.seconds; }
};

// Everything that happens in a step on the ranks of one pipeline stage. Vectors by chunk (vpp).
struct StageWork {
  // Recomputation is in backward; the ends of the model are in the chunks that have them.
  std::vector<ChunkWork> forward, backward;
  // Activations of a micro-batch to the next stage, or its gradients from there back; one direction. Of the last stage:
  // to the first one's next chunk.
  Communication send;
  Communication gradients, parameters;  // over dp, a step: reduce-scatter or all-reduce; all-gather (ZeRO-1 and 2)
  Communication embedding;              // tied embedding: both ends add up, after `gradients`
  double optimizer_s = 0;
};

// How the parts follow one another, in the closed form and in the simulated iteration alike:
// - A stage works through slots_of(). Its message leaves when a slot's work is done and the receiver waits for it; the
//   stage goes on at once, but an interleaved pipeline without sends_hidden waits until it has arrived. The last chunk
//   sends nothing forward, the first nothing backward.
// - `gradients` are summed beside the last micro-batch's backward slots (2BW: beside the whole next step), `parameters`
//   gathered when the step begins, beside the first micro-batch's forward slots. Each chunk has 1/vpp of them: its
//   gradients follow from its own last backward slot on, its parameters must be there by the end of its first forward
//   slot. Of both the share 1 − overlapped cannot be hidden: it comes before the first slot, and after the last.
// - Then, when all stages are done, `embedding` (2BW: beside the whole next step too), then the optimizer.
struct StepParts {
  std::vector<StageWork> stages;  // pp of them
  int micro_batches = 1;
  double overlapped = 0;      // 0 … 1
  bool sends_hidden = false;  // interleaved, Overlap::kAll
};
// CHECK: check_workload.
StepParts step_parts(const Workload& workload, const Hardware& hardware);

// A step's length and what it is made of, of the slowest stage; the parts add up to step_s.
struct StepTime {
  double step_s = 0;
  double matrix_s = 0, memory_s = 0, launch_s = 0;
  double tp_s = 0, cp_s = 0, ep_s = 0;
  double pipeline_s = 0;   // messages between stages that nothing hides
  double bubble_s = 0;     // idle, uneven stages included
  double gradients_s = 0;  // dp, embedding and ZeRO's gathers, what is not hidden (ZeRO-3's of each micro-batch too)
  double optimizer_s = 0;

  double model_flops = 0;     // of the whole step, no recomputation, no credit for the causal mask
  double hardware_flops = 0;  // with it
  double mfu = 0, hfu = 0;    // over GPUs · step · peak_flops of the precision (16-bit, TF32 or FP8 products)
};
StepTime step_time(const Workload& workload, const Hardware& hardware);
StepTime step_time(const Workload& workload, const Hardware& hardware, const StepParts& parts);

// Model and hardware FLOPs of one step.
//   model     (6 · active parameters without embeddings + 6·h·V + 12·l·h·s) · tokens; for GPT that is
//             72·B·s·l·h²·(1 + s/(6h) + V/(12lh)) to the printed digits     (Narayanan et al. 2021, Korthikanti et al.
//             2022)
//   hardware  adds what is computed again: full, one more forward of the layers; selective, the attention core as
//             72·B·s·l·h²·(1 + s/(3h) + V/(12lh)) counts it (Korthikanti et al. 2022, equation 9)
double model_flops(const ModelShape& model, int global_batch, int sequence);
double hardware_flops(const Workload& workload);

}  // namespace scalai::parallel
