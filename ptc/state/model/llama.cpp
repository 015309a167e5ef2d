#include "ptc/state/model/internal/families.h"
#include "ptc/state/model/internal/param_list.h"

namespace scalai::model {
namespace {

void append_grouped_attention(ParamList& layer, const Model& model) {
  const int64_t head_dim = model.hidden / model.heads;
  layer.add_linear("attention.qkv", {.out = qkv_rows(model, head_dim), .in = model.hidden, .rule = TpRule::kColumn});
  layer.add_linear("attention.dense", {.out = model.hidden, .in = model.heads * head_dim, .rule = TpRule::kRow});
}

void append_gated_mlp(ParamList& layer, const Model& model) {
  const ParamList::Linear column = {.out = model.ffn, .in = model.hidden, .rule = TpRule::kColumn};
  layer.add_linear("mlp.gate", column);
  layer.add_linear("mlp.up", column);
  layer.add_linear("mlp.down", {.out = model.hidden, .in = model.ffn, .rule = TpRule::kRow});
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

void append_llama_params(Model& model) {
  const int home = model.tied ? Param::kBothEnds : Param::kFirst;
  ParamList(model, home).add("embedding.word.weight", {model.vocab, model.hidden}, TpRule::kVocab);
  for (int index = 0; index < model.layers; ++index) {
    ParamList layer(model, index);
    layer.add_norm("attention_norm", model.hidden, false);
    append_grouped_attention(layer, model);
    layer.add_norm("mlp_norm", model.hidden, false);
    if (model.experts > 0) {
      append_experts(layer, model);
    } else {
      append_gated_mlp(layer, model);
    }
  }
  ParamList last(model, Param::kLast);
  last.add_norm("final_norm", model.hidden, false);
  if (!model.tied) last.add("head.weight", {model.vocab, model.hidden}, TpRule::kVocab);
}

}  // namespace scalai::model
