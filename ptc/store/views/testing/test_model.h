#pragma once
// For tests: tiny models as Hugging Face folders, with bytes that follow from a seed.

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/safetensors/safetensors.h"
#include "ptc/store/safetensors/testing/test_job.h"
#include "ptc/store/safetensors/testing/write_safetensors.h"

namespace scalai::store {

inline std::string llama_config(int heads, int kv_heads, bool tied = false) {
  return fmt::format(R"({{"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "num_attention_heads": {},
 "num_key_value_heads": {}, "num_hidden_layers": 4, "intermediate_size": 48, "vocab_size": 1000,
 "max_position_embeddings": 64, "tie_word_embeddings": {}}})",
                     heads, kv_heads, tied);
}
inline std::string gpt2_config(int vocab = 50257) {
  return fmt::format(R"({{"architectures": ["GPT2LMHeadModel"], "n_embd": 16, "n_head": 4, "n_layer": 4,
 "vocab_size": {}, "n_positions": 24}})",
                     vocab);
}
inline std::string mixtral_config() {
  return R"({"architectures": ["MixtralForCausalLM"], "hidden_size": 32, "num_attention_heads": 8,
 "num_key_value_heads": 4, "num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": 1000,
 "max_position_embeddings": 64, "num_local_experts": 4, "num_experts_per_tok": 2})";
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
inline std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::string deepseek_config() {
  return R"({"architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 8, "intermediate_size": 8,
 "moe_intermediate_size": 4, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 16,
 "max_position_embeddings": 8, "q_lora_rank": 4, "kv_lora_rank": 4, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2,
 "v_head_dim": 2, "n_routed_experts": 2, "n_shared_experts": 1, "num_experts_per_tok": 1, "first_k_dense_replace": 1,
 "num_nextn_predict_layers": 1})";
}

// What a model of this config.json has, in BF16.
struct TinyModel {
  Family family;
  Sizes sizes;
  std::vector<LogicalState> states;
  Naming naming(const std::string& name) const {
    absl::StatusOr<Naming> made = Naming::of(family, name, sizes);
    SCALAI_CHECK(made.ok(), message_of(made.status()));
    return *made;
  }
};
inline TinyModel tiny_model(const std::string& config) {
  const Families families = Families::built_in();
  absl::StatusOr<Family> family = families.of_config(config);
  SCALAI_CHECK(family.ok(), message_of(family.status()));
  absl::StatusOr<Sizes> sizes = family->sizes_of_config(config);
  SCALAI_CHECK(sizes.ok(), message_of(sizes.status()));
  const absl::StatusOr<model::Model> model = family->build_model(*sizes, "tiny");
  SCALAI_CHECK(model.ok(), message_of(model.status()));
  TinyModel tiny{*family, *sizes, {}};
  for (const model::Param& param : model->params) {
    tiny.states.push_back({param.name, tensor::DType::kBF16, param.shape, model::StateKind::kParam});
  }
  return tiny;
}

inline std::vector<std::byte> random_bytes(Random& random, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next() >> 56);
  return bytes;
}

// config.json and its safetensors files under Hugging Face's names. finite: no infinities and no NaN. more: other
// tensors, in the last file.
inline void write_hugging_face(const std::string& folder, const std::string& config, const WholeOptions& options = {},
                               uint64_t seed = 1, bool finite = false, const std::vector<TensorSpec>& more = {}) {
  std::filesystem::create_directories(folder);
  write_text(folder + "/config.json", config);
  const TinyModel tiny = tiny_model(config);
  const absl::StatusOr<std::vector<ArrangedFile>> files = arrange_whole(tiny.naming("hf"), tiny.states, options);
  SCALAI_CHECK(files.ok(), message_of(files.status()));
  Random random(seed);
  for (const ArrangedFile& file : *files) {
    std::vector<TensorSpec> specs;
    for (const ArrangedTensor& tensor : file.tensors) specs.push_back({tensor.name, tensor.dtype, tensor.shape});
    if (&file == &files->back()) specs.insert(specs.end(), more.begin(), more.end());
    std::vector<std::byte> bytes;
    const absl::Status written =
        write_safetensors(folder + "/" + file.name, specs, file.metadata,
                          [&](const StoredTensor& stored) -> absl::StatusOr<std::span<const std::byte>> {
                            bytes = random_bytes(random, stored.bytes);
                            // The highest bit of the exponent.
                            for (size_t i = 1; finite && i < bytes.size(); i += 2) bytes[i] &= std::byte{0xbf};
                            return std::span<const std::byte>(bytes);
                          });
    SCALAI_CHECK(written.ok(), message_of(written));
  }
  if (files->size() > 1) write_text(folder + "/" + std::string(kIndexFileName), index_text(*files));
}

}  // namespace scalai::store
