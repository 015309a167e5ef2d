#include "ptc/model/internal/families.h"
#include "ptc/model/internal/param_list.h"

namespace scalai::model {
namespace {

void append_attention(ParamList& layer, const Model& model, const LlamaDetails& details) {
  const int64_t head_dim = details.head_dim > 0 ? details.head_dim : model.hidden / model.heads;
  layer.add_linear(
      "attention.qkv",
      {.out = qkv_rows(model, head_dim), .in = model.hidden, .rule = TpRule::kColumn, .bias = details.attention_bias});
  layer.add_linear(
      "attention.dense",
      {.out = model.hidden, .in = model.heads * head_dim, .rule = TpRule::kRow, .bias = details.attention_bias});
}

void append_mlp(ParamList& layer, const Model& model, bool bias) {
  const ParamList::Linear column = {.out = model.ffn, .in = model.hidden, .rule = TpRule::kColumn, .bias = bias};
  layer.add_linear("mlp.gate", column);
  layer.add_linear("mlp.up", column);
  layer.add_linear("mlp.down", {.out = model.hidden, .in = model.ffn, .rule = TpRule::kRow, .bias = bias});
}

void append_experts(ParamList& layer, const Model& model) {
  layer.add("router.weight", {model.experts, model.hidden});
  for (int expert = 0; expert < model.experts; ++expert) {
    layer.add_expert(expert, "gate.weight", {model.ffn, model.hidden}, TpRule::kColumn);
    layer.add_expert(expert, "up.weight", {model.ffn, model.hidden}, TpRule::kColumn);
    layer.add_expert(expert, "down.weight", {model.hidden, model.ffn}, TpRule::kRow);
  }
}

}  // namespace

void append_llama_params(Model& model, const LlamaDetails& details) {
  const int home = model.tied ? Param::kBothEnds : Param::kFirst;
  ParamList(model, home).add("embedding.word.weight", {model.vocab, model.hidden}, TpRule::kVocab);
  for (int index = 0; index < model.layers; ++index) {
    ParamList layer(model, index);
    layer.add_norm("attention_norm", model.hidden, false);
    append_attention(layer, model, details);
    layer.add_norm("mlp_norm", model.hidden, false);
    if (model.experts > 0) {
      append_experts(layer, model);
    } else {
      append_mlp(layer, model, details.mlp_bias);
    }
  }
  ParamList last(model, Param::kLast);
  last.add_norm("final_norm", model.hidden, false);
  if (!model.tied) last.add("head.weight", {model.vocab, model.hidden}, TpRule::kVocab);
}

}  // namespace scalai::model
