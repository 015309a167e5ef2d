#pragma once
// Training options of a job: batch, sequence, number formats, pipeline schedule, recomputation. Together with a
// ParallelConfig they determine memory and step time. Plain values and pure functions; any thread may call them.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cost/step/model_shape.h"
#include "ptc/cost/step/recompute.h"
#include "ptc/state/collection/layout_name.h"
#include "ptc/state/model/model.h"

namespace scalai::step {

// Number format of matrix products.
enum class Math : uint8_t { kF32, kTF32, kF16, kBF16, kFP8, kFP4 };
// Operands of products are cast to fewer than 16 bits.
inline bool is_narrow(Math math) { return math == Math::kFP8 || math == Math::kFP4; }

// Bytes a parameter. ZeRO shards parameters from stage 3 on, gradients from stage 2 on (shards_gradients in memory.h),
// optimizer state from stage 1 on.
//
//   name        param  gradient  optimizer            together   source
//   bf16        2      4 (fp32)  4 + 4 + 4            18         Megatron-Core; distributed optimizer 6 + 12/d
//   fp16        2      2         4 + 4 + 4 + 4 (grad) 20         Megatron-LM; 4 + 16/d
//   zero-fp16   2      2         4 + 4 + 4            16         Rajbhandari et al., ZeRO (SC'20); DeepSpeed's, with
//               its buffers
//   fp32        4      4         4 + 4                16         8 + 8/d; products in TF32 if the GPU has it
//   fp8         2      4         4 + 4 + 4            18         bf16 parameters, products in FP8 (Transformer Engine)
//   nvfp4       2      4         4 + 4 + 4            18         likewise in FP4 with a scale for 16 elements
//
// Other optimizers than Adam (model.h): SGD with momentum has one moment of 4 bytes instead of two, Muon the same for
// matrices of layers; moments in bf16 save 4 bytes, in 8 bits 6.
struct Precision {
  std::string name = "bf16";
  Math math = Math::kBF16;
  double param_bytes = 2, gradient_bytes = 4, optimizer_bytes = 12;
  double activation_bytes = 2;  // an element of activations
  model::Optimizer optimizer = model::Optimizer::kAdam;
  bool deepspeed = false;  // only DeepSpeed has it (Training::runs_in)

  // Of optimizer_bytes, what matrices of layers do without (Muon's second moment).
  double saved_by_matrices() const { return optimizer == model::Optimizer::kMuon ? 4 : 0; }
};
std::vector<std::string> precision_names();
// Unknown name: InvalidArgument with all names.
absl::StatusOr<Precision> find_precision(std::string_view name, model::Optimizer optimizer = model::Optimizer::kAdam);

// 1F1B is interleaved if vpp > 1 (Narayanan et al., SC'21). 2BW: PipeDream-2BW (Narayanan et al., ICML'21), without
// flushes and with two versions of the weights. Zero bubble with the activations of one pipeline or of two (Qi et al.,
// arXiv 2401.10241: ZB-1p, ZB-2p) and DualPipe (DeepSeek-AI, arXiv 2412.19437) put gradients of weights where a stage
// would wait; they are priced (step_time.cpp), not simulated slot by slot.
enum class Schedule : uint8_t { kGPipe, kOneFOneB, kTwoBW, kZeroBubble1, kZeroBubble2, kDualPipe };

// Work beside tensor-parallel collectives.
//   none              nothing; a separate kernel adds gradients up (Megatron-LM of 2021)
//   weight-gradients  backward: the products of the weight gradients (Megatron-LM since 2022)
//   all               also the products that they feed, and messages of an interleaved pipeline beside its work
//                     (Transformer Engine's user buffers, Megatron-Core's overlapped point-to-point messages)
enum class Overlap : uint8_t { kNone, kWeightGradients, kAll };

// Data-parallel synchronisation beside the work. Megatron-Core hides nothing unless asked (--overlap-grad-reduce,
// --overlap-param-gather); NeMo, PyTorch's DDP and FSDP ask for all.
//   none       after the last backward pass and before the first forward pass; ZeRO-3 gathers tensor by tensor, on
//              demand
//   gradients  sums of gradients, bucket by bucket, beside the last micro-batch's backward pass
//   all        also the gathering of parameters (ZeRO-1 to 3), beside the first micro-batch's forward pass
enum class DataOverlap : uint8_t { kNone, kGradients, kAll };

// Which kernels a layer is made of.
//   eager   RMSNorm, rotary embedding and SwiGLU step by step, as PyTorch does without its compiler
//   fused   a kernel each; flash attention of the second generation (Megatron-LM, compiled PyTorch)
//   tuned   fused, with the products and the attention of NVIDIA's libraries since autumn 2024 (NeMo 24.09 and later,
//           Megatron-Bridge): faster on GPUs with FP8 (kTuned… in kernels.cpp), as fused on others
//   early   fused, with flash attention of the first generation, which was current until the summer of 2023
enum class Kernels : uint8_t { kEager, kFused, kTuned, kEarly };

// Whose training loop it is, where loops differ beyond the options here. What each does follows from its source code.
//   megatron   Megatron-LM, Megatron-Core, NeMo, PyTorch
//   deepspeed  runtime/pipe/engine.py (2022): stages exchange an activation for a gradient one after the other, with
//              nothing beside it; both are cut over tp and gathered, outputs once more before their backward pass. With
//              bf16, gradients are all-reduced whole (runtime/bf16_optimizer.py). Precision zero-fp16 implies it
//   scaling    Aleph Alpha's Scaling (core/nn, core/optimizer; 2024): exchanges as DeepSpeed's, but without sequence
//              parallelism every rank of tp sends the whole activation; gradients are all-reduced whole and in 32 bits;
//              each matrix of SwiGLU sums its input gradient by itself; gathered inputs are kept
//   internevo  InternEvo (solver/optimizer/hybrid_zero_optim.py; July to September 2023): ZeRO-1 gives each rank whole
//              tensors. Gradients are all-reduced whole (reduce_rank is none); each rank's updated parameters are
//              broadcast, one after the other; each matrix of SwiGLU sums its input gradient by itself
enum class Framework : uint8_t { kMegatron, kDeepSpeed, kScaling, kInternEvo };

// How tokens get to their experts.
//   all-to-all  NCCL's: a copy for each chosen expert
//   once        DeepEP and HybridEP: once to each other host with a chosen expert, then once to each GPU there
enum class Dispatch : uint8_t { kAllToAll, kOnce };

// How the loss is made of logits.
//   separate  in 32 bits and a kernel for each operation (Megatron-LM; NeMo before 24.09)
//   compiled  in 32 bits, operations put together (Megatron-Core's cross_entropy_fusion_impl native, PyTorch's own)
//   fused     a kernel each way that keeps 16 bits (Transformer Engine's, in Megatron-Bridge until June 2026;
//             torch.compile)
enum class Loss : uint8_t { kSeparate, kCompiled, kFused };

// Names of the values above, in their order; and the number formats of gradients with their bytes.
inline constexpr std::array<std::string_view, 6> kScheduleNames = {"gpipe", "1f1b",  "2bw",
                                                                   "zb-1p", "zb-2p", "dualpipe"};
inline constexpr std::array<std::string_view, 3> kOverlapNames = {"none", "weight-gradients", "all"};
inline constexpr std::array<std::string_view, 3> kDataOverlapNames = {"none", "gradients", "all"};
inline constexpr std::array<std::string_view, 4> kKernelNames = {"eager", "fused", "tuned", "early"};
inline constexpr std::array<std::string_view, 4> kFrameworkNames = {"megatron", "deepspeed", "scaling", "internevo"};
inline constexpr std::array<std::string_view, 2> kDispatchNames = {"all-to-all", "once"};
inline constexpr std::array<std::string_view, 3> kLossNames = {"separate", "compiled", "fused"};
inline constexpr std::array<std::pair<std::string_view, double>, 3> kGradientBytes = {
    {{"fp32", 4}, {"bf16", 2}, {"fp16", 2}}};

// Names in static storage. The find_ functions return InvalidArgument with all names for an unknown one.
std::string_view name_of(Schedule schedule);    // "gpipe", "1f1b", "2bw" …
std::string_view name_of(Overlap overlap);      // "none", "weight-gradients", "all"
std::string_view name_of(DataOverlap overlap);  // "none", "gradients", "all"
std::string_view name_of(Kernels kernels);      // "eager", "fused", "tuned", "early"
std::string_view name_of(Dispatch dispatch);    // "all-to-all", "once"
std::string_view name_of(Framework framework);  // "megatron", "deepspeed" …
std::string_view name_of(Loss loss);            // "separate", "compiled", "fused"
absl::StatusOr<Schedule> find_schedule(std::string_view name);
absl::StatusOr<Overlap> find_overlap(std::string_view name);
absl::StatusOr<DataOverlap> find_data_overlap(std::string_view name);
absl::StatusOr<Kernels> find_kernels(std::string_view name);
absl::StatusOr<Dispatch> find_dispatch(std::string_view name);
absl::StatusOr<Framework> find_framework(std::string_view name);
absl::StatusOr<Loss> find_loss(std::string_view name);
// Bytes of a gradient, of kGradientBytes.
absl::StatusOr<double> find_gradient_bytes(std::string_view name);
std::vector<std::string> gradient_names();

struct Training {
  int global_batch = 1;  // samples of a step
  int micro_batch = 1;   // samples of one pass through the pipeline
  int sequence = 0;      // tokens of a sample
  Precision precision;
  Schedule schedule = Schedule::kOneFOneB;
  Recompute recompute = Recompute::kNone;
  bool sequence_parallel = true;  // over tp; no effect with tp 1
  bool flash_attention = true;    // no activations of size s²
  Kernels kernels = Kernels::kFused;
  Overlap overlap = Overlap::kWeightGradients;
  DataOverlap data_overlap = DataOverlap::kAll;
  Framework framework = Framework::kMegatron;  // ask runs_in()
  Dispatch dispatch = Dispatch::kAllToAll;
  std::optional<Loss> loss;      // ask loss_kernels()
  bool expert_overlap = false;   // tokens go to their experts and back beside the work of another micro-batch
  bool cuda_graphs = false;      // of whole steps: the host launches nothing kernel by kernel
  bool grouped_experts = false;  // products of all local experts are one kernel, else one for each of them
  // Tokens of the rank of experts with the most, as a share of the mean. Benchmarks force 1.
  double imbalance = 1;
  int mtp = 0;   // further tokens that are predicted, each by a layer of its own and the head (DeepSeek-V3)
  int lora = 0;  // rank of the adapters (LoRA) that are trained alone, beside the matrices of attention and of dense
                 // feed-forward blocks; 0 = all is trained
  bool lora_qkv = false;          // adapters are beside queries, keys and values alone
  int offloaded_layers = 0;       // of a stage: their activations are kept in the host's memory
  uint8_t offloaded_modules = 0;  // of every layer, bits of Recompute::Module: likewise
  int64_t bucket = 0;             // parameters synchronised at once, beside the work; 0 = bucket_parameters' default
  // false: dp · micro_batch need not divide global_batch, and pp need not divide the micro-batches of an interleaved
  // pipeline; the last ones are short (a dataset gives batches of any size, ptc/store/datasets/share.h).
  bool whole_batches = true;

  // Micro-batches of a step through one pipeline; the last one may be short. CHECK: dp and micro_batch >= 1.
  int micro_batches(int dp) const;
  // What `loss` says; else compiled with tuned kernels, separate with others.
  Loss loss_kernels() const { return loss.value_or(kernels == Kernels::kTuned ? Loss::kCompiled : Loss::kSeparate); }
  // DeepSpeed if the precision is DeepSpeed's, else `framework`.
  Framework runs_in() const { return precision.deepspeed ? Framework::kDeepSpeed : framework; }
  // Each rank gets the sums of all gradients, also where ZeRO-1 or 2 leave it only a share to update.
  bool sums_whole_gradients() const;
  // Bytes of a gradient while it is summed.
  double summed_gradient_bytes() const;
  // Parameters of a bucket that `ranks` synchronise: `bucket`, or Megatron-Core's default, max(40 million,
  // 1 million · ranks), which keeps rings over many ranks from being bound by latency.
  double bucket_parameters(int ranks) const;
};

// Input of the memory and step time models. Holds references: use it as an argument only; the referred objects must
// outlive it.
struct Workload {
  const ModelShape& model;
  const collection::ParallelConfig& config;
  const Training& training;
};

// Layers of each virtual stage (collection::layers_per_stage). Where further tokens are predicted and the layout names
// no stages, the last one has fewer, at least one, so that its layers and heads are as much work as another stage:
// recipes place them so (Megatron-Bridge, DeepSeek-V3: 4 layers on 15 stages, 1 on the last).
std::vector<int> layers_per_stage(const Workload& workload);

// Sizes that do not divide or are out of range: InvalidArgument with all problems, one a line. Covers tp and heads, cp
// and sequence, batch and dp · micro_batch, stages and layers, interleaving and micro-batches (Megatron: pp divides m),
// experts, sizes of 0.
absl::Status check_workload(const Workload& workload);

}  // namespace scalai::step
