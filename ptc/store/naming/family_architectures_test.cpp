// The built-in families against models that were released, by numbers of parameters as transformers 5.24 counts them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ptc/base/status.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/naming/family.h"

namespace scalai::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Published {
  std::string_view name;
  int64_t parameters;
  std::string_view config;
};

constexpr std::array kPublished = {
    Published{"qwen2.5-7b", 7'615'616'512,
              R"({"architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584, "intermediate_size": 18944,
            "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
            "max_position_embeddings": 32768, "tie_word_embeddings": false})"},
    Published{"qwen3-8b", 8'190'735'360,
              R"({"architectures": ["Qwen3ForCausalLM"], "hidden_size": 4096, "intermediate_size": 12288,
            "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": false,
            "attention_bias": false})"},
    Published{"qwen3-30b-a3b", 30'532'122'624,
              R"({"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048, "intermediate_size": 6144,
            "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32,
            "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": 40960,
            "tie_word_embeddings": false, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
            "mlp_only_layers": []})"},
    Published{"qwen1.5-moe", 14'315'784'192,
              R"({"architectures": ["Qwen2MoeForCausalLM"], "hidden_size": 2048, "intermediate_size": 5632,
            "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_hidden_layers": 24,
            "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151936,
            "max_position_embeddings": 8192, "tie_word_embeddings": false, "num_experts": 60,
            "num_experts_per_tok": 4, "decoder_sparse_step": 1})"},
    Published{"mistral-7b", 7'241'732'096,
              R"({"architectures": ["MistralForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
            "max_position_embeddings": 32768, "tie_word_embeddings": false})"},
    Published{"gemma-7b", 8'537'680'896,
              R"({"architectures": ["GemmaForCausalLM"], "hidden_size": 3072, "intermediate_size": 24576,
            "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256,
            "vocab_size": 256000, "max_position_embeddings": 8192})"},
    Published{"gemma-2-9b", 9'241'705'984,
              R"({"architectures": ["Gemma2ForCausalLM"], "hidden_size": 3584, "intermediate_size": 14336,
            "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
            "vocab_size": 256000, "max_position_embeddings": 8192})"},
    Published{"gemma-3-1b", 999'885'952, R"({"architectures": ["Gemma3ForCausalLM"], "hidden_size": 1152,
            "intermediate_size": 6912, "num_hidden_layers": 26, "num_attention_heads": 4,
            "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144,
            "max_position_embeddings": 32768})"},
    Published{"phi-3-mini", 3'821'079'552,
              R"({"architectures": ["Phi3ForCausalLM"], "hidden_size": 3072, "intermediate_size": 8192,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064,
            "max_position_embeddings": 4096, "tie_word_embeddings": false})"},
    Published{"olmo-2-7b", 7'298'617'344,
              R"({"architectures": ["Olmo2ForCausalLM"], "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 100352,
            "max_position_embeddings": 4096, "tie_word_embeddings": false})"},
    Published{"granite-3-8b", 8'170'848'256,
              R"({"architectures": ["GraniteForCausalLM"], "hidden_size": 4096, "intermediate_size": 12800,
            "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 49155,
            "max_position_embeddings": 4096, "tie_word_embeddings": true})"},
    Published{"gpt-neox-20b", 20'554'567'680,
              R"({"architectures": ["GPTNeoXForCausalLM"], "hidden_size": 6144, "intermediate_size": 24576,
            "num_hidden_layers": 44, "num_attention_heads": 64, "vocab_size": 50432,
            "max_position_embeddings": 2048, "tie_word_embeddings": false})"},
    Published{"opt-6.7b", 6'658'473'984,
              R"({"architectures": ["OPTForCausalLM"], "hidden_size": 4096, "ffn_dim": 16384, "num_hidden_layers": 32,
            "num_attention_heads": 32, "vocab_size": 50272, "max_position_embeddings": 2048,
            "word_embed_proj_dim": 4096, "do_layer_norm_before": true})"},
    Published{"starcoder2-7b", 7'173'923'840,
              R"({"architectures": ["Starcoder2ForCausalLM"], "hidden_size": 4608, "intermediate_size": 18432,
            "num_hidden_layers": 32, "num_attention_heads": 36, "num_key_value_heads": 4, "vocab_size": 49152,
            "max_position_embeddings": 16384, "use_bias": true})"},
    Published{"bert-large", 335'174'458,
              R"({"architectures": ["BertForMaskedLM"], "hidden_size": 1024, "intermediate_size": 4096,
            "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 30522,
            "max_position_embeddings": 512, "type_vocab_size": 2})"},
    Published{"llama-4-scout", 107'769'861'120,
              R"({"architectures": ["Llama4ForCausalLM"], "hidden_size": 5120, "intermediate_size": 8192,
            "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "num_attention_heads": 40,
            "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 202048, "max_position_embeddings": 10485760,
            "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1,
            "tie_word_embeddings": false})"},
    Published{"llama-4-maverick", 400'711'848'960, R"({"architectures": ["Llama4ForCausalLM"], "hidden_size": 5120,
            "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_hidden_layers": 48,
            "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 202048,
            "max_position_embeddings": 1048576, "num_local_experts": 128, "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 2, "tie_word_embeddings": false})"},
    Published{"deepseek-v2-lite", 15'706'484'224,
              R"({"architectures": ["DeepseekV2ForCausalLM"], "hidden_size": 2048, "intermediate_size": 10944,
            "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16,
            "num_key_value_heads": 16, "vocab_size": 102400, "max_position_embeddings": 163840,
            "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
            "v_head_dim": 128, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
            "first_k_dense_replace": 1, "moe_layer_freq": 1, "tie_word_embeddings": false})"},
    Published{"deepseek-v3", 671'026'404'352,
              R"({"architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168, "intermediate_size": 18432,
            "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128,
            "num_key_value_heads": 128, "vocab_size": 129280, "max_position_embeddings": 163840,
            "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
            "v_head_dim": 128, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
            "first_k_dense_replace": 3, "moe_layer_freq": 1, "num_nextn_predict_layers": 1,
            "tie_word_embeddings": false})"},
};

const Published& published(std::string_view name) {
  return *std::find_if(kPublished.begin(), kPublished.end(), [&](const Published& each) { return each.name == name; });
}

Family family_of(std::string_view config) { return Families::built_in().of_config(config).value(); }

TEST(FamilyArchitectures, HaveAsManyParametersAsWereReleased) {
  for (const Published& each : kPublished) {
    const auto model = model_of_config(each.config, "m");
    ASSERT_TRUE(model.ok()) << each.name << ": " << message_of(model.status());
    EXPECT_EQ(model->parameter_count(), each.parameters) << each.name;
  }
}

// A job's model has no config.json: its tensors have to tell.
TEST(FamilyArchitectures, AreToldByTheirTensors) {
  for (const Published& each : kPublished) {
    SCOPED_TRACE(each.name);
    const Family family = family_of(each.config);
    const Sizes sizes = family.sizes_of_config(each.config).value();
    const auto model = family.build_model(sizes, "");
    ASSERT_TRUE(model.ok()) << message_of(model.status());
    auto told = family.sizes_of_model(*model);
    ASSERT_TRUE(told.ok()) << message_of(told.status());
    const auto again = family.build_model(*told, "");
    ASSERT_TRUE(again.ok()) << message_of(again.status());
    EXPECT_EQ(again->parameter_count(), each.parameters);
    const ModelFile file{family.name(), "m", sizes};
    const auto read = parse_model_file(model_file_text(file), "model.textproto");
    ASSERT_TRUE(read.ok()) << message_of(read.status());
    EXPECT_EQ(*read, file);
  }
}

TEST(FamilyArchitectures, LayersDiffer) {
  const auto sparse = [](std::string_view name, const std::string& more = "") {
    std::string config(published(name).config);
    config.insert(config.size() - 1, more);
    return family_of(config).sizes_of_config(config).value().layer_sets.at("sparse");
  };
  std::vector<int> behind_three(58);
  std::iota(behind_three.begin(), behind_three.end(), 3);
  EXPECT_EQ(sparse("deepseek-v3"), behind_three);
  EXPECT_THAT(sparse("llama-4-maverick"), testing::SizeIs(24));
  EXPECT_EQ(sparse("llama-4-maverick").front(), 1);
  EXPECT_THAT(sparse("llama-4-maverick", R"(, "moe_layers": [0, 47])"), ElementsAre(0, 47));
  EXPECT_THAT(sparse("qwen1.5-moe"), testing::SizeIs(24));
  EXPECT_EQ(sparse("deepseek-v2-lite").size(), 26U);
}

TEST(FamilyArchitectures, ListsOfLayersAreChecked) {
  const auto problem = [](const std::string& more) {
    std::string config(published("llama-4-maverick").config);
    config.insert(config.size() - 1, more);
    return message_of(family_of(config).sizes_of_config(config).status());
  };
  EXPECT_EQ(problem(R"(, "moe_layers": [1, 48])"), "/moe_layers: 48 is not one of the 48 layers, which count from 0");
  EXPECT_EQ(problem(R"(, "moe_layers": {})"), "/moe_layers: an object is not a list of layers");
  std::string deepseek(published("deepseek-v3").config);
  deepseek.replace(deepseek.find("\"first_k_dense_replace\": 3"), 26, "\"first_k_dense_replace\": -1");
  EXPECT_EQ(message_of(family_of(deepseek).sizes_of_config(deepseek).status()),
            "/first_k_dense_replace: -1 is not a whole number from 0 to 65536");
}

TEST(FamilyArchitectures, SwitchesFollowTheArchitecture) {
  const auto has = [](std::string_view name, const std::string& tensor) {
    const model::Model model = model_of_config(published(name).config, "").value();
    return std::any_of(model.params.begin(), model.params.end(),
                       [&](const model::Param& param) { return param.name == tensor; });
  };
  EXPECT_TRUE(has("qwen2.5-7b", "layers.0.attention.qkv.bias"));
  EXPECT_FALSE(has("qwen2.5-7b", "layers.0.attention.dense.bias"));
  EXPECT_TRUE(has("qwen3-8b", "layers.0.attention.query_norm.weight"));
  EXPECT_FALSE(has("gemma-7b", "head.weight")) << "tied where nothing is said";
  EXPECT_TRUE(has("deepseek-v3", "layers.60.router.expert_bias"));
  EXPECT_FALSE(has("deepseek-v3", "layers.2.router.weight"));
  EXPECT_TRUE(has("deepseek-v2-lite", "layers.0.attention.query.weight"));
}

TEST(FamilyArchitectures, RefuseWhatTheyDoNotDescribe) {
  const auto problem = [](std::string_view name, const std::string& more) {
    std::string config(published(name).config);
    config.insert(config.size() - 1, more);
    return message_of(model_of_config(config, "").status());
  };
  EXPECT_EQ(problem("olmo-2-7b", R"(, "attention_bias": true)"),
            "/attention_bias: biases of attention are not described (set it to false)");
  std::string narrow(published("opt-6.7b").config);
  narrow.replace(narrow.find("\"word_embed_proj_dim\": 4096"), 27, "\"word_embed_proj_dim\": 512");
  EXPECT_THAT(message_of(model_of_config(narrow, "").status()), HasSubstr("/word_embed_proj_dim: embeddings narrower"));
  EXPECT_THAT(problem("bert-large", R"(, "position_embedding_type": "relative_key")"),
              HasSubstr("/position_embedding_type: not supported (set it to absolute)"));
}

// ---- files ----------------------------------------------------------------------------------------------------------

constexpr std::string_view kTiny =
    R"({"architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 8, "intermediate_size": 8,
  "moe_intermediate_size": 4, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 16,
  "max_position_embeddings": 8, "q_lora_rank": 4, "kv_lora_rank": 4, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2,
  "v_head_dim": 2, "n_routed_experts": 2, "n_shared_experts": 1, "num_experts_per_tok": 1, "first_k_dense_replace": 1})";

struct TinyFiles {
  Naming naming;
  FoundFile file{.name = "model.safetensors", .tensors = {}};
};

TinyFiles tiny_files() {
  const Family family = family_of(kTiny);
  const Sizes sizes = family.sizes_of_config(kTiny).value();
  TinyFiles tiny{.naming = Naming::of(family, "hf", sizes).value()};
  std::vector<LogicalState> states;
  const model::Model model = family.build_model(sizes, "").value();
  for (const model::Param& param : model.params)
    states.push_back({.name = param.name,
                      .dtype = param.buffer ? tensor::DType::kF32 : tensor::DType::kBF16,
                      .shape = param.shape,
                      .kind = param.buffer ? model::StateKind::kBuffer : model::StateKind::kParam});
  const std::vector<ArrangedFile> files = arrange_whole(tiny.naming, states).value();
  for (const ArrangedTensor& tensor : files.front().tensors)
    tiny.file.tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
  return tiny;
}

void remove(FoundFile& file, std::string_view part) {
  std::erase_if(file.tensors, [&](const FoundTensor& each) { return each.name.find(part) != std::string::npos; });
}

TEST(FamilyArchitectures, LayersBehindTheLastAreLeftOutOnlyIfTheyAreNamed) {
  TinyFiles tiny = tiny_files();
  tiny.file.tensors.push_back({"model.layers.2.eh_proj.weight", tensor::DType::kBF16, {8, 16}});
  EXPECT_THAT(message_of(read_whole(tiny.naming, std::span(&tiny.file, 1)).status()),
              HasSubstr("is not expected: the model has 2 layers, and this is of one behind them\nhint: "));
  const std::vector<std::string> drop = {"model.layers.2.*"};
  const auto found = read_whole(tiny.naming, std::span(&tiny.file, 1), WholeStates::kParams, drop);
  ASSERT_TRUE(found.ok()) << message_of(found.status());
  EXPECT_THAT(found->dropped, ElementsAre("model.layers.2.eh_proj.weight"));
  EXPECT_EQ(found->dropped_layers_key, "num_nextn_predict_layers");
  EXPECT_THAT(found->ignored, ElementsAre());
  tiny.file.tensors.back().name = "model.layers.1.eh_proj.weight";
  EXPECT_THAT(message_of(read_whole(tiny.naming, std::span(&tiny.file, 1)).status()), HasSubstr("is not expected"));
}

TEST(FamilyArchitectures, StackedExpertsAreReadInThePlaceOfSingleOnes) {
  TinyFiles tiny = tiny_files();
  remove(tiny.file, ".experts.");
  tiny.file.tensors.push_back({"model.layers.1.mlp.experts.gate_up_proj", tensor::DType::kBF16, {2, 8, 8}});
  EXPECT_THAT(message_of(read_whole(tiny.naming, std::span(&tiny.file, 1)).status()),
              testing::AllOf(HasSubstr("\"model.layers.1.mlp.experts.0.down_proj.weight\" [8, 4] is missing"),
                             testing::Not(HasSubstr("gate_proj"))));
  tiny.file.tensors.push_back({"model.layers.1.mlp.experts.down_proj", tensor::DType::kBF16, {2, 8, 4}});
  const auto found = read_whole(tiny.naming, std::span(&tiny.file, 1));
  ASSERT_TRUE(found.ok()) << message_of(found.status());
  const auto& stacked = found->files.front().tensors;
  const auto fused = std::find_if(stacked.begin(), stacked.end(), [](const ArrangedTensor& each) {
    return each.name == "model.layers.1.mlp.experts.gate_up_proj";
  });
  ASSERT_NE(fused, stacked.end());
  ASSERT_EQ(fused->pieces.size(), 4U);  // gate and up of two experts, 4 rows of 8 each
  EXPECT_EQ(fused->pieces[0].logical, "layers.1.experts.0.gate.weight");
  EXPECT_EQ(fused->pieces[3].logical, "layers.1.experts.1.up.weight");
  EXPECT_EQ(fused->pieces[3].piece.offset, (8 + 4) * 8);
}

}  // namespace
}  // namespace scalai::store
