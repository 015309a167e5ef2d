#include "ptc/state/model/internal/families.h"
#include "ptc/state/model/internal/param_list.h"

namespace scalai::model {
namespace {

ParamList::Linear with_bias(int64_t out, int64_t in, TpRule rule) {
  return {.out = out, .in = in, .rule = rule, .bias = true};
}

void append_attention(ParamList& layer, const Model& model) {
  const int64_t head_dim = model.hidden / model.heads;
  layer.add_linear("attention.qkv", with_bias(qkv_rows(model, head_dim), model.hidden, TpRule::kColumn));
  layer.add_linear("attention.dense", with_bias(model.hidden, model.heads * head_dim, TpRule::kRow));
}

void append_mlp(ParamList& layer, const Model& model) {
  layer.add_linear("mlp.up", with_bias(model.ffn, model.hidden, TpRule::kColumn));
  layer.add_linear("mlp.down", with_bias(model.hidden, model.ffn, TpRule::kRow));
}

void append_embeddings(Model& model) {
  const int home = model.tied ? Param::kBothEnds : Param::kFirst;
  ParamList(model, home).add("embedding.word.weight", {model.vocab, model.hidden}, TpRule::kVocab);
  ParamList(model, Param::kFirst).add("embedding.position.weight", {model.sequence, model.hidden});
}

void append_untied_head(Model& model) {
  if (!model.tied) ParamList(model, Param::kLast).add("head.weight", {model.vocab, model.hidden}, TpRule::kVocab);
}

}  // namespace

int64_t qkv_rows(const Model& model, int64_t head_dim) { return (model.heads + 2 * model.kv_heads) * head_dim; }

void append_gpt_params(Model& model) {
  append_embeddings(model);
  for (int index = 0; index < model.layers; ++index) {
    ParamList layer(model, index);
    layer.add_norm("attention_norm", model.hidden, true);
    append_attention(layer, model);
    layer.add_norm("mlp_norm", model.hidden, true);
    append_mlp(layer, model);
  }
  ParamList(model, Param::kLast).add_norm("final_norm", model.hidden, true);
  append_untied_head(model);
}

void append_bert_params(Model& model, int64_t token_types) {
  append_embeddings(model);
  ParamList first(model, Param::kFirst);
  first.add("embedding.token_type.weight", {token_types, model.hidden});
  first.add_norm("embedding.norm", model.hidden, true);
  for (int index = 0; index < model.layers; ++index) {
    ParamList layer(model, index);
    append_attention(layer, model);
    layer.add_norm("attention_norm", model.hidden, true);
    append_mlp(layer, model);
    layer.add_norm("mlp_norm", model.hidden, true);
  }
  ParamList(model, Param::kLast).add_linear("pooler", with_bias(model.hidden, model.hidden, TpRule::kReplicated));
  append_untied_head(model);
}

}  // namespace scalai::model
