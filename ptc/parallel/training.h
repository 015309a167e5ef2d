#pragma once
// How a job trains, besides where its tensors are: batch, sequence, numbers, pipeline schedule, what is recomputed.
// Together with a ParallelConfig that is what memory and step time follow from.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/collection/layout_name.h"
#include "ptc/model/model.h"
#include "ptc/parallel/model_shape.h"

namespace scalai::parallel {

// What matrix products compute in.
enum class Math : uint8_t { kF32, kTF32, kF16, kBF16, kFP8 };

// Bytes a parameter, by what shares them out: parameters from ZeRO-3 on, gradients from ZeRO-2 on
// (shards_gradients in memory.h), the rest from ZeRO-1 on.
//
//   name        param  gradient  optimizer            together   source
//   bf16        2      4 (fp32)  4 + 4 + 4            18         Megatron-Core; distributed optimizer 6 + 12/d
//   fp16        2      2         4 + 4 + 4 + 4 (grad) 20         Megatron-LM; 4 + 16/d
//   zero-fp16   2      2         4 + 4 + 4            16         Rajbhandari et al., ZeRO (SC'20), also DeepSpeed's
//   fp32        4      4         4 + 4                16         8 + 8/d; products in TF32 where the GPU has it
//   fp8         2      4         4 + 4 + 4            18         bf16 parameters, products in FP8 (Transformer Engine)
//
// With SGD and momentum one moment of 4 bytes takes the place of two.
struct Precision {
  std::string name = "bf16";
  Math math = Math::kBF16;
  double param_bytes = 2, gradient_bytes = 4, optimizer_bytes = 12;
  double activation_bytes = 2;  // an element of activations
};
std::vector<std::string> precision_names();
// Unknown: InvalidArgument with the nearest name and all of them.
absl::StatusOr<Precision> find_precision(std::string_view name, model::Optimizer optimizer = model::Optimizer::kAdam);

// 1F1B is interleaved where vpp > 1 (Narayanan et al., SC'21). 2BW: PipeDream-2BW (Narayanan et al., ICML'21), which never
// flushes and keeps two versions of the weights.
enum class Schedule : uint8_t { kGPipe, kOneFOneB, kTwoBW };
// Selective: the attention core is computed again; full: the layer (Korthikanti et al. 2022).
enum class Recompute : uint8_t { kNone, kSelective, kFull };

// What tensor-parallel collectives run beside.
//   none              nothing, and gradients are added up in a kernel of their own (Megatron-LM of 2021)
//   weight-gradients  in the backward pass, the product that makes the weights' gradient (Megatron-LM since 2022)
//   all               the products they feed as well, and messages of an interleaved pipeline beside its work
//                     (Transformer Engine's user buffers, Megatron-Core's overlapped point-to-point messages)
enum class Overlap : uint8_t { kNone, kWeightGradients, kAll };

std::string_view name_of(Schedule schedule);    // "gpipe", "1f1b", "2bw"
std::string_view name_of(Recompute recompute);  // "none", "selective", "full"
std::string_view name_of(Overlap overlap);      // "none", "weight-gradients", "all"
absl::StatusOr<Schedule> find_schedule(std::string_view name);
absl::StatusOr<Recompute> find_recompute(std::string_view name);
absl::StatusOr<Overlap> find_overlap(std::string_view name);

struct Training {
  int global_batch = 1;  // samples a step
  int micro_batch = 1;   // samples
  int sequence = 0;      // tokens a sample
  Precision precision;
  Schedule schedule = Schedule::kOneFOneB;
  Recompute recompute = Recompute::kNone;
  bool sequence_parallel = true;  // over tp; of no effect at tp 1
  bool flash_attention = true;    // no s^2 activations
  bool overlap_gradients = true;  // dp synchronisation beside the last backward passes
  Overlap overlap = Overlap::kWeightGradients;
  // false: dp · micro_batch need not divide global_batch, nor pp the micro-batches of interleaving: the last ones are
  // short (a dataset deals out batches of any size, ptc/data/share.h).
  bool whole_batches = true;

  // Micro-batches of a step through one pipeline, the last one may be short. CHECK: dp and micro_batch >= 1.
  int micro_batches(int dp) const;
};

// What memory and step time are asked about. Refers to its parts: for arguments only.
struct Workload {
  const ModelShape& model;
  const collection::ParallelConfig& config;
  const Training& training;
};

// What does not divide or is out of range, all of it, one a line: tp and heads, cp and sequence, batch and dp · micro_batch,
// stages and layers, interleaving and micro-batches (Megatron: pp divides m), experts, sizes of 0.
absl::Status check_workload(const Workload& workload);

}  // namespace scalai::parallel
