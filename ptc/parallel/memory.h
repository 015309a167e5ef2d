#pragma once
// How much memory each pipeline stage's GPUs need, term by term. Symbols: s sequence, b micro-batch, h hidden, a heads,
// t, c, d the sizes of tp, cp and dp, A bytes of an activation (2 for 16 bits), V padded vocabulary.
//
// State, by precision (training.h) and ZeRO stage: a stage's layers cut by tp (a key-value head is whole, so each rank
// holds one where tp exceeds them), experts by etp and ep, the word embedding on the first stage and the head on the
// last with their rows padded to a multiple of 128·tp. A tied head on another stage is a copy with gradient and
// optimizer state of its own, as Megatron-LM keeps it. ZeRO divides by dp·cp, for experts by edp. 2BW keeps the
// parameters once more (Narayanan et al., ICML'21).
//
// Activations of a layer, a micro-batch (Korthikanti et al. 2022, equations 2 to 6), in bytes a token, of which a rank
// has s·b/c. "divided" is what sequence parallelism divides by t, the rest tp divides anyway:
//   divided    norm inputs 2Ah, inputs of the QKV and of the first MLP matrix 2Ah, two dropout masks 2h
//   attention  queries, keys, values, what comes out: A(2q + 2k), q = a·head size, k = kv heads·head size
//   MLP        what enters and leaves its non-linearity: 2A·ffn, 3A·ffn with SwiGLU
//   core       softmax's output A·a·s, with dropout its output as well and a mask, (2A + 1)·a·s. Neither flash
//              attention nor selective recomputation keeps it.
// For GPT with A = 2 that is s·b·h·(10 + 24/t + 5as/(ht)), and s·b·h/t·(34 + 5as/h) with sequence parallelism.
//   experts    of the k chosen ones, at capacity 1 and even load: input and output 2Ak·h·etp, MLP as above k times, of
//              s·b/(c·t) tokens
// Full recomputation keeps a layer's input, Ah, divided.
//
// In-flight micro-batches: schedule.h. Both ends (Korthikanti et al., 4.3): the embedding's dropout mask h, the final
// norm's and the head's inputs 2Ah, all divided, and logits of one micro-batch, 4V/t for the fp32 ones plus AV/t for
// their gradient in the precision of activations (GPipe keeps the fp32 ones of all micro-batches).
//
// Working memory: what is recomputed of one layer; with ZeRO-3 the whole parameters of what is at work and of what is
// next: two layers, or a layer and the embedding before it or the head behind it. What else a layer's backward pass needs
// for a moment is in the margin.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ptc/parallel/training.h"

namespace scalai::parallel {

// Names of terms, in the order in which they are listed.
namespace memory_term {
inline constexpr std::string_view kParameters = "parameters";
inline constexpr std::string_view kGradients = "gradients";
inline constexpr std::string_view kOptimizer = "optimizer";
inline constexpr std::string_view kPrevious = "previous weights";
inline constexpr std::string_view kActivations = "activations";  // of the layers
inline constexpr std::string_view kEmbedding = "embedding dropout";
inline constexpr std::string_view kHead = "head input";
inline constexpr std::string_view kLogits = "logits";
inline constexpr std::string_view kRecomputed = "recomputed layer";
inline constexpr std::string_view kGathered = "gathered parameters";
}  // namespace memory_term

struct MemoryTerm {
  std::string name;     // one of memory_term
  double bytes = 0;     // on one GPU
  std::string formula;  // with its numbers: "12 layers · 10 micro-batches in flight · 60 MB a layer"
};

struct StageMemory {
  int stage = 0;
  std::vector<MemoryTerm> terms;              // those that are not 0
  double bytes() const;                       // their sum
  double bytes(std::string_view term) const;  // 0 where there is none of this name
};

struct MemoryEstimate {
  std::vector<StageMemory> stages;  // pp of them
  // Beside the worst stage's sum: what the allocator loses between blocks that come and go (kFragmentation of all but
  // the state, which is allocated once) and what the framework takes: a CUDA context and libraries, NCCL's buffers.
  double margin_bytes = 0;
  std::string margin_formula;
  const StageMemory& worst() const;  // the first of the largest
  double bytes() const;              // of the worst stage, margin included
};

// Share of the memory that comes and goes in a step. PyTorch's allocator wastes more where sizes vary (studies report
// up to 43 %, arXiv 2507.16274); with fixed shapes and few long-lived blocks it is of this order.
inline constexpr double kFragmentation = 0.08;
// A CUDA context with loaded kernels and cuBLAS's workspace. Typical of A100 and H100; older GPUs take less.
inline constexpr double kContextBytes = 640.0 * (1 << 20);
// A communicator's channels: NCCL_BUFFSIZE is 4 MiB for each of some 16 to 24 channels, in both directions, and the
// smaller buffers of LL and LL128 beside it.
inline constexpr double kCommunicatorBytes = 256.0 * (1 << 20);

// Whether a rank keeps but its share of the gradients and scatters those of each micro-batch: with ZeRO-3, and with ZeRO-2
// where there is no pipeline. Pipelines sum several micro-batches' before they are through, so with ZeRO-2 they keep them
// whole until the step's end and it differs from ZeRO-1 in nothing (DeepSpeed forbids the two together).
bool shards_gradients(const collection::ParallelConfig& config);

// CHECK: check_workload.
MemoryEstimate memory_of(const Workload& workload);

// bytes() of that without the texts: for searches.
double memory_bytes(const Workload& workload);

// Activation bytes of one transformer layer for one micro-batch on one rank.
double layer_activation_bytes(const Workload& workload);

// Elements of one rank's share of a pipeline stage, before ZeRO: what dp·cp shares out, and what edp does.
struct StageElements {
  double dense = 0, experts = 0;
  double layers = 0;  // of these, of the stage's layers; the rest is of both ends
};
StageElements stage_elements(const Workload& workload, int stage);

}  // namespace scalai::parallel
