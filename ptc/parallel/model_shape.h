#pragma once
// What the cost models need of a model: the sizes of one layer and of both ends, without its tensors. Made from a model
// of the catalogue, or written by hand for a published one whose tensors nobody needs.

#include <cstdint>
#include <string>

#include "ptc/model/model.h"

namespace scalai::parallel {

struct ModelShape {
  std::string name;
  int layers = 0;
  int64_t hidden = 0;
  int heads = 0;         // 0 = convolutional: priced by flops_per_sample alone
  int kv_heads = 0;      // = heads unless grouped-query attention
  int64_t head_dim = 0;  // heads · head_dim is hidden, as a rule
  int64_t ffn = 0;
  bool gated = false;      // SwiGLU: three matrices of hidden · ffn instead of two
  bool biases = false;     // every linear layer and norm has one (GPT, BERT)
  bool dropout = false;    // GPT and BERT of their time; counts in memory and in memory-bound time
  bool positions = false;  // learned, `sequence` rows
  bool causal = true;      // a token attends to those before it; false: to all (BERT)
  int64_t vocab = 0;
  int64_t sequence = 0;  // longest that the model takes
  bool tied = false;     // head shares the word embedding; with pp > 1 the last stage has a copy
  int experts = 0;       // 0 = dense
  int experts_per_token = 0;
  double flops_per_sample = 0;  // convolutional: forward and backward

  // Elements, by where they are. Expert parameters are those of one expert.
  int64_t layer_cut_params = 0;         // of a layer, what tp divides (matrices, column biases)
  int64_t layer_replicated_params = 0;  // norms, row biases, router
  int64_t layer_expert_params = 0;      // one expert
  int64_t embedding_params = 0;         // word embedding, unpadded: cut by tp
  int64_t first_params = 0;             // else on the first stage (positions, token types, norms): replicated
  int64_t last_params = 0;              // on the last stage beside the head (final norm): replicated
  int64_t head_params = 0;              // untied head: cut by tp; 0 when tied

  int64_t parameters() const;         // a tied embedding once; equals Model::parameter_count()
  int64_t active_parameters() const;  // per token; equals Model::active_parameter_count()
};

ModelShape shape_of(const model::Model& model);

// Sizes of a transformer by hand; what is 0 follows from the others (kv_heads, head_dim, ffn = 4 · hidden).
// Fills in the parameter counts.
ModelShape transformer_shape(ModelShape sizes);

}  // namespace scalai::parallel
