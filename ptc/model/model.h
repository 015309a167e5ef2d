#pragma once
// A model as logical tensors: every parameter and buffer with its global name (never stage-local), shape, the layer it
// belongs to and Megatron's partition rule. No weights, no device: pure shapes. Sources of the shapes and of the
// published parameter counts stand in catalogue.cpp.

#include <cstdint>
#include <string>
#include <vector>

#include "ptc/tensor/box.h"
#include "ptc/tensor/dtype.h"

namespace scalai::model {

// What a logical tensor of the job state is.
enum class StateKind : uint8_t { kParam, kMaster, kExpAvg, kExpAvgSq, kMomentum, kBuffer, kRng, kScalar, kPrevious };
std::string_view name_of(StateKind kind);  // "param", "master", "exp_avg", "exp_avg_sq", "momentum", …

// How tensor parallelism cuts a parameter (Shoeybi et al. 2019, Megatron-LM).
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
  // Where the parameter lives in the pipeline: layer index, or one of the two ends.
  static constexpr int kFirst = -1;     // before layer 0 (embeddings)
  static constexpr int kLast = -2;      // after the last layer (final norm, head)
  static constexpr int kBothEnds = -3;  // tied embedding: one logical tensor, two homes
  int layer = kFirst;
  int expert = -1;      // global expert id, -1 = dense
  bool buffer = false;  // not trained (batch-norm statistics): kBuffer state, no optimizer state
};

enum class Optimizer : uint8_t { kAdam, kSgdMomentum };

// Which state a training job keeps for each trained parameter.
struct Recipe {
  tensor::DType param = tensor::DType::kF16;  // kF16, kBF16 or kF32
  bool master = true;                         // fp32 master copy (mixed precision); ignored when param is kF32
  Optimizer optimizer = Optimizer::kAdam;
  bool previous = false;  // the parameters of the step before, too: PipeDream-2BW's second version
};

struct Model {
  std::string name;    // catalogue name, e.g. "gpt3-xl"
  std::string family;  // "gpt", "bert", "llama", "mixtral", "resnet"
  std::string source;  // where the shape was published
  int layers = 0;
  int64_t hidden = 0;
  int heads = 0;
  int kv_heads = 0;  // = heads unless grouped-query attention
  int64_t ffn = 0;
  int64_t vocab = 0;
  int64_t sequence = 0;  // maximum (and default training) sequence length
  int experts = 0;       // 0 = dense
  int experts_per_token = 0;
  bool tied = false;             // head shares the word embedding
  int64_t published_params = 0;  // trained parameters as published; 0 = not published
  int64_t params_rounding = 1;   // published_params is rounded to a multiple of this; 1 = exact
  std::vector<Param> params;     // in forward order

  int64_t parameter_count() const;         // trained elements, a tied tensor counted once
  int64_t active_parameter_count() const;  // per token: with experts_per_token of the experts
};

// One logical tensor of the job state.
struct StateTensor {
  std::string name;  // parameter name, for optimizer state with the suffix ".master", ".exp_avg", …
  tensor::DType dtype = tensor::DType::kF32;
  tensor::Shape shape;
  StateKind kind = StateKind::kParam;
  int param = -1;  // index in Model::params; -1 for job state (rng, step, data cursor)
};

// The whole job state in a fixed order: for each parameter its param, its previous version (in the same dtype), master,
// moments; then "rng.host" (kRng, U8, Mersenne twister state of 5,056 bytes), "rng.device" (kRng, U8, 16 bytes: Philox
// seed and offset), "step" (kScalar, I64, rank 0) and "data.cursor" (kScalar, I64, [2]: pass and sample offset), each
// exactly once. Optimizer state is F32; so are buffers, except that a buffer of rank 0 is an I64 counter.
std::vector<StateTensor> state_tensors(const Model& model, const Recipe& recipe);

// Bytes of one model replica's state, a tied tensor counted once per home when `per_home`.
int64_t state_bytes(const Model& model, const Recipe& recipe, bool per_home);

}  // namespace scalai::model
