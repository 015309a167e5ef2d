#pragma once
// The tensor lists of each family. Every function reads the sizes that the model already carries (layers, hidden,
// heads, …), appends to model.params, and needs an empty list. Sizes are positive and divide as the family asks:
// the catalogue is right by test, the import of ResNets checks them.

#include <cstdint>
#include <vector>

#include "ptc/state/model/model.h"

namespace scalai::model {

// GPT-2 and GPT-3: pre-norm, learned positions, biases everywhere, GELU.
void append_gpt_params(Model& model);

// BERT: post-norm, learned positions and token types, pooler. The head that predicts masked words is left out, but
// because it shares the word embedding a tied model has that embedding at both ends.
void append_bert_params(Model& model, int64_t token_types);

// Llama and Mixtral: pre-norm, RMS norm, rotary positions, SwiGLU, grouped-query attention; with model.experts > 0
// every feed-forward block is a router and that many experts.
void append_llama_params(Model& model);

// ResNet (He et al. 2016) without tensor parallelism. model.layers = residual blocks, in all stages together.
struct ResnetShape {
  int64_t image_channels = 3;
  int64_t stem_width = 64;
  std::vector<int64_t> stage_width;     // output channels of each stage; divisible by 4 with bottleneck
  std::vector<int64_t> stage_depth;     // blocks of each stage
  bool bottleneck = true;               // 1x1, 3x3, 1x1 with a quarter of the width; else two 3x3
  bool downsample_first_stage = false;  // the first stage halves the image too
  int64_t classes = 1000;
};
void append_resnet_params(Model& model, const ResnetShape& shape);

// Rows of a fused query-key-value weight: for each group of heads that share a key its queries, then the key and the
// value, so that an even cut of the rows is right whenever tp divides kv_heads.
int64_t qkv_rows(const Model& model, int64_t head_dim);

}  // namespace scalai::model
