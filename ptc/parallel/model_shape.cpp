#include "ptc/parallel/model_shape.h"

#include "ptc/base/status.h"

namespace scalai::parallel {
namespace {

// ResNet-50 at 224 × 224: 8.2 GFLOP forward (He et al. 2016, multiplications and additions counted apart), twice that back.
constexpr double kResnet50Flops = 3 * 8.2e9;

bool is_embedding(const model::Param& param) { return param.rule == model::TpRule::kVocab; }

// Adds one parameter where it belongs. Layers are alike: the first one speaks for all.
void count(const model::Param& param, ModelShape& shape) {
  const int64_t elements = param.shape.elements();
  if (param.buffer) return;
  if (param.layer == 0) {
    if (param.expert == 0) shape.layer_expert_params += elements;
    if (param.expert >= 0) return;
    (param.rule == model::TpRule::kReplicated ? shape.layer_replicated_params : shape.layer_cut_params) += elements;
  } else if (param.layer == model::Param::kLast) {
    (is_embedding(param) ? shape.head_params : shape.last_params) += elements;
  } else if (param.layer < 0) {
    (is_embedding(param) ? shape.embedding_params : shape.first_params) += elements;
  }
}

int64_t linear(int64_t out, int64_t in, bool bias) { return out * in + (bias ? out : 0); }

}  // namespace

int64_t ModelShape::parameters() const {
  const int64_t layer = layer_cut_params + layer_replicated_params + int64_t{experts} * layer_expert_params;
  return layers * layer + embedding_params + first_params + last_params + head_params;
}

int64_t ModelShape::active_parameters() const {
  return parameters() - int64_t{layers} * (experts - experts_per_token) * layer_expert_params;
}

ModelShape shape_of(const model::Model& model) {
  const bool gpt = model.family == "gpt" || model.family == "bert";
  ModelShape shape{.name = model.name,
                   .layers = model.layers,
                   .hidden = model.hidden,
                   .heads = model.heads,
                   .kv_heads = model.kv_heads,
                   .head_dim = model.heads > 0 ? model.hidden / model.heads : 0,
                   .ffn = model.ffn,
                   .gated = !gpt,
                   .biases = gpt,
                   .dropout = gpt,
                   .positions = gpt,
                   .causal = model.family != "bert",
                   .vocab = model.vocab,
                   .sequence = model.sequence,
                   .tied = model.tied,
                   .experts = model.experts,
                   .experts_per_token = model.experts_per_token};
  if (model.heads == 0) {
    // Its layers differ: all is counted as on one stage.
    shape.flops_per_sample = kResnet50Flops;
    shape.first_params = model.parameter_count();
    return shape;
  }
  for (const model::Param& param : model.params) {
    count(param, shape);
    if (param.layer == 0 && param.name.ends_with("attention.dense.weight")) {
      shape.head_dim = param.shape[1] / model.heads;
    }
  }
  return shape;
}

ModelShape transformer_shape(ModelShape sizes) {
  ModelShape& s = sizes;
  SCALAI_CHECK(s.layers > 0 && s.hidden > 0 && s.heads > 0 && s.vocab > 0, s.name);
  if (s.kv_heads == 0) s.kv_heads = s.heads;
  if (s.head_dim == 0) s.head_dim = s.hidden / s.heads;
  if (s.ffn == 0) s.ffn = 4 * s.hidden;
  const int64_t q = s.heads * s.head_dim, kv = 2 * s.kv_heads * s.head_dim;
  const int64_t norm = s.hidden * (s.biases ? 2 : 1);
  const int64_t mlp = linear((s.gated ? 2 : 1) * s.ffn, s.hidden, s.biases) + s.hidden * s.ffn;
  s.layer_cut_params = linear(q + kv, s.hidden, s.biases) + s.hidden * q + (s.experts > 0 ? 0 : mlp);
  if (s.shared_ffn > 0)
    s.layer_cut_params += linear((s.gated ? 2 : 1) * s.shared_ffn, s.hidden, s.biases) + s.hidden * s.shared_ffn;
  s.layer_replicated_params = 2 * norm + (s.biases ? 2 * s.hidden : 0);
  s.layer_expert_params = s.experts > 0 ? mlp : 0;
  if (s.experts > 0) s.layer_replicated_params += s.experts * s.hidden;  // router
  s.embedding_params = s.vocab * s.hidden;
  s.first_params = s.positions ? s.sequence * s.hidden : 0;
  s.last_params = norm;
  s.head_params = s.tied ? 0 : s.vocab * s.hidden;
  return s;
}

}  // namespace scalai::parallel
