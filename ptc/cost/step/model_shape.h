#pragma once
// Sizes of one layer and of both ends of a model, without its tensors: the model input of all cost models. Made from a
// catalogue model (shape_of), or by hand for a published model (transformer_shape). A plain value.

#include <cstdint>
#include <string>

#include "ptc/state/model/model.h"

namespace scalai::step {

// Blocks of a layer, on the mean of all layers; a residual is behind each, and `norms` of the model's width are before
// or behind it. As a rule one of attention and one feed-forward
// block. DeepSeek begins with dense layers, Nemotron-H has one block a layer.
struct Blocks {
  double attention = 1;
  double state_space = 0;
  double dense = 0;   // feed-forward
  double sparse = 0;  // router and experts
  double norms = 1;   // of a block: Gemma 2 has one before and one behind
  double all() const { return attention + state_space + dense + sparse; }
};

// Mamba-2 (Dao and Gu 2024), in elements of a token: `inner` of x, z and the result, `groups` of B and as many of C,
// which are whole states of `state` elements, a time step for each head.
struct StateSpace {
  int64_t inner = 0, groups = 0, heads = 0, state = 0;
  int64_t columns() const { return 2 * inner + 2 * groups + heads; }  // of the first matrix: z, x, B, C, dt
};

struct ModelShape {
  std::string name;
  int layers = 0;
  int64_t hidden = 0;
  int heads = 0;         // 0 = convolutional: its time follows from flops_per_sample alone
  int kv_heads = 0;      // = heads unless grouped-query attention
  int64_t head_dim = 0;  // heads · head_dim is hidden, as a rule; latent attention: the mean of a key's and a value's
  int64_t ffn = 0;       // of an expert, or where there are none of the feed-forward block
  Blocks blocks;
  int64_t dense_ffn = 0;  // of the feed-forward blocks; = ffn unless there are experts, too
  StateSpace state_space;
  int64_t window = 0;        // a token attends to so many before it,
  double windowed = 0;       // in this share of the attention blocks
  bool query_norms = false;  // of queries and of keys, head by head (Qwen 3)
  int64_t latent_width = 0;  // of the vectors that latent attention makes queries, keys and values of
  bool gated = false;        // SwiGLU: three matrices of hidden · ffn instead of two
  bool biases = false;       // every linear layer and norm has one (GPT, BERT)
  bool dropout = false;      // early GPT and BERT; counts in memory and in memory-bound time
  bool positions = false;    // learned position embedding of `sequence` rows
  bool latent = false;  // keys and values of all heads come from one small vector (DeepSeek): none are repeated for tp
  bool causal = true;   // a token attends only to earlier ones; false: to all (BERT)
  int64_t vocab = 0;
  int64_t sequence = 0;  // maximum length
  bool tied = false;     // the head shares the word embedding; with pp > 1 the last stage has a copy
  int experts = 0;       // 0 = dense
  int experts_per_token = 0;
  int64_t shared_ffn = 0;  // of a feed-forward block beside the experts that every token takes, cut by tp; 0 = none
  double flops_per_sample = 0;  // convolutional: forward and backward

  // Numbers of elements by place. Where layers differ, those "of a layer" are the mean of all, rounded down.
  int64_t layer_cut_params = 0;          // of a layer, cut by tp (matrices, column biases)
  int64_t layer_replicated_params = 0;   // of a layer: norms, row biases, router, latent attention's first matrices
  int64_t layer_expert_params = 0;       // of one expert of a layer
  int64_t attention_in_params = 0;       // of an attention block's matrices before its core, cut by tp
  int64_t attention_whole_params = 0;    // likewise, whole on every rank
  int64_t attention_out_params = 0;      // of the one behind the core
  int64_t all_layers_params = 0;         // of all layers, exactly, all experts included
  int64_t all_layers_expert_params = 0;  // of one expert of each layer
  int64_t embedding_params = 0;          // word embedding, unpadded: cut by tp
  int64_t first_params = 0;              // others on the first stage (positions, token types, norms): replicated
  int64_t last_params = 0;               // others on the last stage (final norm): replicated
  int64_t head_params = 0;               // untied head: cut by tp; 0 when tied

  int64_t parameters() const;         // counts a tied embedding once; equals Model::parameter_count()
  int64_t active_parameters() const;  // for one token; equals Model::active_parameter_count()
  // Pairs of tokens that the attention blocks look at, as a share of those without a window.
  double attended(int tokens) const;
};

// The shape keeps no reference to `model`. A convolutional model counts as ResNet-50: 24.6 GFLOP a sample, all
// parameters in first_params.
ModelShape shape_of(const model::Model& model);

// Completes the sizes of a transformer whose layers are alike: fills kv_heads, head_dim and ffn (= 4 · hidden) where
// they are 0, the blocks, then all parameter counts. CHECK: layers, hidden, heads and vocab above 0.
ModelShape transformer_shape(ModelShape sizes);

}  // namespace scalai::step
