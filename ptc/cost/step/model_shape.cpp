#include "ptc/cost/step/model_shape.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "ptc/base/status.h"

namespace scalai::step {
namespace {

// ResNet-50 at 224 × 224: 8.2 GFLOP forward (He et al. 2016, multiplications and additions counted apart), twice that
// back.
constexpr double kResnet50Flops = 3 * 8.2e9;

bool is_embedding(const model::Param& param) { return param.rule == model::TpRule::kVocab; }

bool is_matrix_before_core(const model::Param& param) {
  return param.shape.rank() == 2 && param.name.find(".attention.") != std::string::npos &&
         !param.name.ends_with("attention.dense.weight");
}

// Adds one parameter where it belongs, of all layers together.
void count(const model::Param& param, ModelShape& shape) {
  const int64_t elements = param.shape.elements();
  if (param.buffer) return;
  const bool replicated = param.rule == model::TpRule::kReplicated;
  if (param.layer >= 0) {
    shape.all_layers_params += elements;
    if (param.expert == 0) shape.layer_expert_params += elements;
    if (param.expert >= 0) return;
    (replicated ? shape.layer_replicated_params : shape.layer_cut_params) += elements;
    if (is_matrix_before_core(param))
      (replicated ? shape.attention_whole_params : shape.attention_in_params) += elements;
    if (param.name.ends_with("attention.dense.weight")) shape.attention_out_params += elements;
  } else if (param.layer == model::Param::kLast) {
    (is_embedding(param) ? shape.head_params : shape.last_params) += elements;
  } else {
    (is_embedding(param) ? shape.embedding_params : shape.first_params) += elements;
  }
}

int64_t linear(int64_t out, int64_t in, bool bias) { return out * in + (bias ? out : 0); }

}  // namespace

int64_t ModelShape::parameters() const {
  return all_layers_params + embedding_params + first_params + last_params + head_params;
}

int64_t ModelShape::active_parameters() const {
  return parameters() - (experts - experts_per_token) * all_layers_expert_params;
}

double ModelShape::attended(int tokens) const {
  if (window <= 0 || window >= tokens || windowed <= 0) return 1;
  const double all = tokens, reach = static_cast<double>(window);
  const double pairs = reach * all - reach * reach / 2;
  return 1 - windowed * (1 - pairs / (all * all / 2));
}

namespace {

// Of a model's tensors: how many layers have which block, and its sizes.
void count_blocks(const model::Model& model, ModelShape& shape) {
  shape.blocks.attention = 0;
  const double a_layer = 1.0 / shape.layers;
  double norms = 0;
  for (const model::Param& param : model.params) {
    const auto is = [&](std::string_view name) { return param.name.ends_with(name); };
    if (param.layer < 0 || param.shape.rank() == 0) continue;
    const int64_t rows = param.shape[0];
    if (is(".attention.dense.weight")) shape.blocks.attention += a_layer;
    if (is(".router.weight") && !is("shared_expert.router.weight")) shape.blocks.sparse += a_layer;
    if (is(".mlp.up.weight")) shape.blocks.dense += a_layer, shape.dense_ffn = rows;
    if (is(".state_space.x.weight")) shape.blocks.state_space += a_layer, shape.state_space.inner = rows;
    if (is(".state_space.b.weight")) shape.state_space.groups = rows;
    if (is(".state_space.dt.weight")) shape.state_space.heads = rows;
    if (is(".shared_expert.up.weight")) shape.shared_ffn = rows;
    if (is(".attention.query_norm.weight")) shape.query_norms = true;
    if (is("norm.weight") && !param.name.ends_with(".attention.query_norm.weight") &&
        !is(".attention.key_norm.weight") && rows == shape.hidden && param.shape.rank() == 1)
      norms += a_layer;
  }
  if (norms > 0) shape.blocks.norms = norms / shape.blocks.all();
  shape.state_space.state = model.state;
  shape.window = model.window;
  if (shape.blocks.attention > 0) shape.windowed = model.windowed_layers * a_layer / shape.blocks.attention;
}

}  // namespace

ModelShape shape_of(const model::Model& model) {
  const auto has = [&](std::string_view ending) {
    return std::any_of(model.params.begin(), model.params.end(),
                       [&](const model::Param& param) { return param.name.ends_with(ending); });
  };
  const bool early = model.family == "gpt" || model.family == "bert" || model.family == "opt";
  ModelShape shape{.name = model.name,
                   .layers = model.layers,
                   .hidden = model.hidden,
                   .heads = model.heads,
                   .kv_heads = model.kv_heads,
                   .head_dim = model.heads > 0 ? model.hidden / model.heads : 0,
                   .ffn = model.ffn,
                   .gated = has(".gate.weight"),
                   .biases = has("attention.dense.bias") && (has(".mlp.up.bias") || has(".experts.0.up.bias") || early),
                   .dropout = early,
                   .positions = has("embedding.position.weight"),
                   .latent = has("attention.key_value_up.weight"),
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
  int64_t queries = 0;  // rows, of latent attention
  for (const model::Param& param : model.params) {
    count(param, shape);
    if (param.name.ends_with("attention.dense.weight")) shape.head_dim = param.shape[1] / model.heads;
    if (param.name.ends_with("attention.query.weight") || param.name.ends_with("attention.query_up.weight"))
      queries = param.shape[0] / model.heads;
    if (param.layer == 0 &&
        (param.name.ends_with("query_down.weight") || param.name.ends_with("key_value_down.weight")))
      shape.latent_width += param.shape[0];
  }
  count_blocks(model, shape);
  if (shape.latent) shape.head_dim = (shape.head_dim + queries) / 2;
  shape.all_layers_expert_params = shape.layer_expert_params;
  for (int64_t* const all : {&shape.layer_cut_params, &shape.layer_replicated_params, &shape.layer_expert_params})
    *all /= shape.layers;
  const auto with_attention = std::max<int64_t>(1, std::llround(shape.blocks.attention * shape.layers));
  for (int64_t* const all : {&shape.attention_in_params, &shape.attention_whole_params, &shape.attention_out_params})
    *all /= with_attention;
  return shape;
}

ModelShape transformer_shape(ModelShape sizes) {
  ModelShape& s = sizes;
  SCALAI_CHECK(s.layers > 0 && s.hidden > 0 && s.heads > 0 && s.vocab > 0, s.name);
  if (s.kv_heads == 0) s.kv_heads = s.heads;
  if (s.head_dim == 0) s.head_dim = s.hidden / s.heads;
  if (s.ffn == 0) s.ffn = 4 * s.hidden;
  s.dense_ffn = s.ffn;
  s.blocks = {.dense = s.experts > 0 ? 0.0 : 1.0, .sparse = s.experts > 0 ? 1.0 : 0.0};
  const int64_t q = s.heads * s.head_dim, kv = 2 * s.kv_heads * s.head_dim;
  const int64_t norm = s.hidden * (s.biases ? 2 : 1);
  const int64_t mlp = linear((s.gated ? 2 : 1) * s.ffn, s.hidden, s.biases) + s.hidden * s.ffn;
  s.attention_in_params = (q + kv) * s.hidden;
  s.attention_out_params = s.hidden * q;
  s.layer_cut_params = linear(q + kv, s.hidden, s.biases) + s.hidden * q + (s.experts > 0 ? 0 : mlp);
  if (s.shared_ffn > 0)
    s.layer_cut_params += linear((s.gated ? 2 : 1) * s.shared_ffn, s.hidden, s.biases) + s.hidden * s.shared_ffn;
  s.layer_replicated_params = 2 * norm + (s.biases ? 2 * s.hidden : 0);
  s.layer_expert_params = s.experts > 0 ? mlp : 0;
  if (s.experts > 0) s.layer_replicated_params += s.experts * s.hidden;  // router
  s.all_layers_expert_params = s.layers * s.layer_expert_params;
  s.all_layers_params =
      s.layers * (s.layer_cut_params + s.layer_replicated_params) + s.experts * s.all_layers_expert_params;
  s.embedding_params = s.vocab * s.hidden;
  s.first_params = s.positions ? s.sequence * s.hidden : 0;
  s.last_params = norm;
  s.head_params = s.tied ? 0 : s.vocab * s.hidden;
  return s;
}

}  // namespace scalai::step
