#pragma once
// Memory of each pipeline stage's GPUs, term by term. Pure functions; any thread may call them. Symbols: s sequence,
// b micro-batch, h hidden, a heads; t, c, d the sizes of tp, cp and dp; A bytes of an activation (2 for 16 bits),
// V padded vocabulary.
//
// State follows the precision (training.h) and the ZeRO stage. tp cuts the layers of a stage; a key-value head stays
// whole, so each rank holds one if tp exceeds their number. etp and ep cut the experts. The word embedding is on the
// first stage and the head on the last, with rows padded to a multiple of 128·tp. A tied head on another stage is a
// copy with its own gradient and optimizer state, as in Megatron-LM. ZeRO divides by dp·cp, for experts by edp. 2BW
// keeps a second copy of the parameters (Narayanan et al., ICML'21).
//
// Activations of a layer and micro-batch (Korthikanti et al. 2022, equations 2 to 6), in bytes a token; a rank has
// s·b/c tokens. Sequence parallelism divides the terms marked "divided" by t; tp divides the other terms in any case:
//   divided    norm inputs 2Ah, inputs of the QKV and of the first MLP matrix 2Ah, two dropout masks 2h
//   attention  queries, keys, values and the result: A(2q + 2k), q = a·head size, k = kv heads·head size
//   MLP        input and output of its non-linearity: 2A·ffn, 3A·ffn with SwiGLU
//   core       softmax output A·a·s; with dropout also its output and a mask, (2A + 1)·a·s in all. Flash attention and
//              selective recomputation keep none of it.
// For GPT with A = 2 the sum is s·b·h·(10 + 24/t + 5as/(ht)), and s·b·h/t·(34 + 5as/h) with sequence parallelism.
//   experts    for the k chosen ones, at capacity 1 and even load: input Ak·h·etp, what comes back Ak·h, MLP as above k
//              times, for s·b/(c·t) tokens; a shared expert as an MLP of its own
// Recomputed modules (recompute.h) keep nothing: norms the 2Ah behind them, the experts' non-linearity its result, the
// feed-forward block and the experts all of theirs. Operations keep the layer's input, queries, values, the result of
// attention, the first matrix of the feed-forward block and with SwiGLU its result: A(2h + 2q + k + ffn); of experts
// both trips, 2Ak·h. A layer that is computed again as a whole keeps its input, Ah, divided. With FP8 products the
// inputs of matrices (QKV, projection, both of the MLP) are kept as they were cast, in 1 byte instead of A (Transformer
// Engine, and Yan et al. 2026, arXiv 2603.07685, 16 of 32 GB). Training::offloaded_layers and offloaded_modules are not
// counted.
//
// In-flight micro-batches: schedule.h. Both ends (Korthikanti et al., 4.3): the embedding's dropout mask h, the inputs
// of the final norm and of the head 2Ah, all divided; logits of one micro-batch, 4V/t in fp32 plus AV/t for their
// gradient in the precision of activations; a fused loss (training.h) keeps 2AV/t alone. Eager kernels (training.h)
// keep three in fp32: the copy that the loss is computed from, its log-softmax, and the gradient of that. GPipe keeps
// the fp32 logits of all micro-batches.
//
// Working memory: the recomputed activations of one layer. With ZeRO-3 also the whole parameters of two layers (the
// current and the next), or of a layer and the larger end of the model, if that is more; on demand (DataOverlap::kNone)
// those of the largest matrix.
//
// Buffers of communication:
//   ZeRO-3             the whole gradients of a layer, on demand of a matrix: as computed, and as summed (FSDP2's input
//                      of the reduce-scatter)
//   sequence parallel  a micro-batch's whole input of a layer, Ah a token: Megatron-LM's buffer of gathered inputs
//   context parallel   keys and values twice, those at work and those under way: 2A·2k a token (Transformer Engine's
//                      ring)
//   messages           an activation and its gradient, 2Ah divided, in a pipeline
// DeepSpeed (its defaults, runtime/zero/stage_1_and_2.py and runtime/pipe/engine.py; Training::runs_in):
//   buckets            500 million gradients, gathered and once more flattened for the sum (reduce_bucket_size)
//   step               one after the other, so that the largest counts: the share's gradients as one tensor and in
//                      fp32, 2 + 4 bytes a parameter, from ZeRO-1 on its shard; without ZeRO-3 also 4 bytes an element
//                      of the largest tensor (search for overflows), and with ZeRO in fp16 8 of its part in the share
//                      (norm)
//   outputs            of all micro-batches in flight, in a pipeline; Megatron-LM frees them
// Aleph Alpha's Scaling (core/optimizer/allreduce.py, core/nn):
//   buckets            500 million gradients flattened, and in 32 bits
//   inputs             of both column-parallel matrices as gathered: 2Ah of a layer's terms are not divided
//   outputs            as DeepSpeed
// All other short-lived buffers of a backward pass are in the margin.

#include <string>
#include <string_view>
#include <vector>

#include "ptc/cost/step/training.h"

namespace scalai::step {

// Names of the terms, in the order of the list.
namespace memory_term {
inline constexpr std::string_view kParameters = "parameters";
inline constexpr std::string_view kGradients = "gradients";
inline constexpr std::string_view kOptimizer = "optimizer";
inline constexpr std::string_view kPrevious = "previous weights";  // 2BW's; of DualPipe those of another stage
inline constexpr std::string_view kActivations = "activations";    // of the layers
inline constexpr std::string_view kEmbedding = "embedding dropout";
inline constexpr std::string_view kHead = "head input";
inline constexpr std::string_view kLogits = "logits";
inline constexpr std::string_view kRecomputed = "recomputed layer";
inline constexpr std::string_view kGathered = "gathered parameters";
inline constexpr std::string_view kWholeGradients = "whole gradients";
inline constexpr std::string_view kGatheredInput = "gathered input";
inline constexpr std::string_view kRing = "keys and values under way";
inline constexpr std::string_view kMessages = "pipeline messages";
inline constexpr std::string_view kBuckets = "gradient buckets";
inline constexpr std::string_view kStep = "gradients of the step";
inline constexpr std::string_view kOutputs = "stage outputs";
}  // namespace memory_term

struct MemoryTerm {
  std::string name;     // one of memory_term
  double bytes = 0;     // on one GPU
  std::string formula;  // numbers included: "12 layers · 10 micro-batches in flight · 60 MB a layer"
};

struct StageMemory {
  int stage = 0;
  std::vector<MemoryTerm> terms;              // only terms above 0
  double bytes() const;                       // sum of the terms
  double bytes(std::string_view term) const;  // the term of this name, 0 if absent
};

struct MemoryEstimate {
  std::vector<StageMemory> stages;  // pp of them
  // Added to the sum of the worst stage: losses of the allocator (kFragmentation of all memory but the state, which is
  // allocated once), a CUDA context with libraries (kContextBytes) and NCCL's buffers (kCommunicatorBytes each).
  double margin_bytes = 0;
  double fragmentation_bytes = 0;  // of margin_bytes, the allocator's: what it reserves beside what is allocated
  std::string margin_formula;
  const StageMemory& worst() const;  // the largest stage, the first of equals; refers into `stages`
  double bytes() const;              // the worst stage with the margin
};

// Mean error against 80 measured peaks (results/perfmodel: 8.1 %). A layout that someone names is refused
// only if its estimate is further above the memory than this: published runs are. Searches keep room below it.
inline constexpr double kMemoryError = 0.081;

// Share of the memory that is allocated and freed in a step. PyTorch's allocator wastes more if sizes vary (studies
// report up to 43 %, arXiv 2507.16274); 8 % is the order of magnitude for fixed shapes and few long-lived blocks.
inline constexpr double kFragmentation = 0.08;
// A CUDA context with loaded kernels and cuBLAS's workspace. Typical of A100 and H100; older GPUs take less. Before
// CUDA 11.7 loaded kernels when they are first called it had all of PyTorch's: measured on an A100 in 2022 (BLOOM's
// chronicles, github.com/bigscience-workshop/bigscience, train/tr11-176B-ml), for DeepSpeed of that time.
inline constexpr double kContextBytes = 640.0 * (1 << 20), kEagerContextBytes = 1573.0 * (1 << 20);
// Channels of one communicator: NCCL_BUFFSIZE is 4 MiB for each of some 16 to 24 channels, in both directions, plus the
// smaller buffers of LL and LL128. A rank has one with the world, one a parallel axis, one for the norm of its
// replica's gradients, and one for a tied embedding (Megatron-LM's parallel_state.py).
inline constexpr double kCommunicatorBytes = 256.0 * (1 << 20);

// True if a rank keeps only its share of the gradients and scatters them after each micro-batch: with ZeRO-3, and with
// ZeRO-2 without a pipeline. A pipeline sums the gradients of several micro-batches at once, so with ZeRO-2 it keeps
// them whole until the end of the step and equals ZeRO-1 (DeepSpeed forbids ZeRO-2 with a pipeline).
bool shards_gradients(const collection::ParallelConfig& config);

// Trained elements of a stage as a share of all it has, on a rank: of LoRA's adapters, rank · (inputs + outputs) of
// each adapted matrix; else 1.
double trained_share(const Workload& workload, int stage);

// All terms of all stages, with formulas. CHECK: check_workload accepts the workload.
MemoryEstimate memory_of(const Workload& workload);

// memory_of(workload).bytes() without the texts, for searches. CHECK: check_workload accepts the workload.
double memory_bytes(const Workload& workload);

// Activation bytes of one transformer layer for one micro-batch on one rank; 0 for a convolutional model.
// CHECK: check_workload accepts the workload.
double layer_activation_bytes(const Workload& workload);

// Parameters of one rank of a pipeline stage before ZeRO. ZeRO divides `dense` by dp·cp and `experts` by edp.
struct StageElements {
  double dense = 0, experts = 0;
  double layers = 0;  // part of dense + experts in the stage's layers; the rest belongs to the ends of the model
  double first = 0;   // part of that rest before the first layer, without an embedding that both ends share
};
StageElements stage_elements(const Workload& workload, int stage);

}  // namespace scalai::step
