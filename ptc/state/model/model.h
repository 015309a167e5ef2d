#pragma once
// A model as logical tensors: every parameter and buffer with its global name (never stage-local), shape, layer and
// Megatron partition rule. No weights, no device: shapes only. catalogue.cpp names the sources of the shapes and of the
// published parameter counts. Plain values; any thread may call.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/state/tensor/box.h"
#include "ptc/state/tensor/dtype.h"

namespace scalai::model {

// Role of a logical tensor in the job state.
enum class StateKind : uint8_t { kParam, kMaster, kExpAvg, kExpAvgSq, kMomentum, kBuffer, kRng, kScalar, kPrevious };
// "param", "master", "exp_avg", "exp_avg_sq", "momentum", … The view is valid for the life of the program.
std::string_view name_of(StateKind kind);

// Cut of a parameter by tensor parallelism (Shoeybi et al. 2019, Megatron-LM).
enum class TpRule : uint8_t {
  kReplicated,  // norms, row-parallel biases, position embeddings, convolutions
  kColumn,      // output dimension: dim 0 of [out, in] weights and their biases
  kRow,         // input dimension: dim 1 of [out, in] weights
  kVocab,       // dim 0, vocabulary padded to a multiple of 128·tp
};

struct Param {
  std::string name;  // e.g. "layers.3.attention.qkv.weight"
  tensor::Shape shape;
  TpRule rule = TpRule::kReplicated;
  // Place in the pipeline: layer index, or one of these.
  static constexpr int kFirst = -1;     // before layer 0 (embeddings)
  static constexpr int kLast = -2;      // after the last layer (final norm, head)
  static constexpr int kBothEnds = -3;  // tied embedding: one tensor at both ends
  int layer = kFirst;
  int expert = -1;      // global expert id, -1 = dense
  bool buffer = false;  // not trained (batch-norm statistics): kBuffer state, no optimizer state

  // Of a layer and of two dimensions: what Muon updates.
  bool layer_matrix() const { return layer >= 0 && shape.rank() == 2; }
};

// State beside the parameter and its fp32 master.
//   name       state                                           source
//   adam       two moments in fp32
//   adam-bf16  two moments in bf16                             DeepSeek-V3; Megatron-Core, --exp-avg-dtype bf16
//   adam-8bit  two moments of a byte; scales count as nothing  Dettmers et al. 2022; Megatron-Core, fp8 moments
//   muon       one moment in fp32 for matrices of layers,      Jordan et al. 2024; Liu et al. 2025 (arXiv 2502.16982)
//              Adam's two for all else
//   sgd        one moment in fp32
enum class Optimizer : uint8_t { kAdam, kSgdMomentum, kAdamBf16, kAdam8bit, kMuon };
std::vector<std::string> optimizer_names();  // "adam" first
std::string_view name_of(Optimizer optimizer);
// InvalidArgument: unknown, with all names.
absl::StatusOr<Optimizer> find_optimizer(std::string_view name);

// State that a training job keeps for each trained parameter.
struct Recipe {
  tensor::DType param = tensor::DType::kF16;  // kF16, kBF16 or kF32
  bool master = true;                         // fp32 master copy (mixed precision); ignored when param is kF32
  Optimizer optimizer = Optimizer::kAdam;
  bool previous = false;  // also the parameters of the step before: the second version of PipeDream-2BW
};

struct Model {
  std::string name;    // catalogue name, e.g. "gpt3-xl"
  std::string family;  // "gpt", "bert", "llama", "mixtral", "resnet"
  std::string source;  // publication of the shape
  int layers = 0;
  int64_t hidden = 0;
  int heads = 0;
  int kv_heads = 0;  // = heads unless grouped-query attention
  int64_t ffn = 0;
  int64_t vocab = 0;
  int64_t sequence = 0;  // maximum (and default training) sequence length
  int experts = 0;       // 0 = dense
  int experts_per_token = 0;
  int64_t window = 0;            // tokens that a token attends to, in so many layers:
  int windowed_layers = 0;       // 0 = none
  int64_t state = 0;             // of state-space layers (Mamba-2): elements of a state beside each channel
  bool tied = false;             // the head shares the word embedding
  int64_t published_params = 0;  // trained parameters as published; 0 = not published
  int64_t params_rounding = 1;   // published_params is rounded to a multiple of this; 1 = exact
  std::vector<Param> params;     // in forward order

  int64_t parameter_count() const;         // trained elements; a tied tensor counts once
  int64_t active_parameter_count() const;  // trained elements that one token uses: experts_per_token of the experts
};

// One logical tensor of the job state.
struct StateTensor {
  std::string name;  // parameter name, for optimizer state with the suffix ".master", ".exp_avg", …
  tensor::DType dtype = tensor::DType::kF32;
  tensor::Shape shape;
  StateKind kind = StateKind::kParam;
  int param = -1;  // index in Model::params; -1 for job state (rng, step, data cursor)
};

// The whole job state in a fixed order. For each parameter: the parameter, its previous version (same dtype), master,
// moments. Then, each once: "rng.host" (kRng, U8, 5,056 bytes of Mersenne twister state), "rng.device" (kRng, U8, 16
// bytes: Philox seed and offset), "step" (kScalar, I64, rank 0) and "data.cursor" (kScalar, I64, [2]: pass and sample
// offset). Optimizer state is F32 unless Optimizer says otherwise. Buffers are F32, but I64 counters at rank 0. CHECK:
// recipe.param is F16, BF16 or F32.
std::vector<StateTensor> state_tensors(const Model& model, const Recipe& recipe);

// Bytes of the state of one model replica. With `per_home` a tied tensor counts once for each of its two homes.
int64_t state_bytes(const Model& model, const Recipe& recipe, bool per_home);

}  // namespace scalai::model
