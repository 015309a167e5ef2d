#include "ptc/store/naming/arrange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/state/model/catalogue.h"
#include "ptc/store/naming/testing/arrange.h"

namespace scalai::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<ArrangedFile> arranged(const Naming& naming, const std::vector<LogicalState>& states,
                                   const WholeOptions& options = {}) {
  auto files = arrange_whole(naming, states, options);
  EXPECT_TRUE(files.ok()) << message_of(files.status());
  return files.ok() ? *files : std::vector<ArrangedFile>();
}

const std::vector<Tiny> kTinies = {
    {},
    {.kv_heads = 1, .tied = true},
    {.kv_heads = 4, .bias = true},
    {.head_dim = 6, .hidden = 10, .ffn = 6, .bias = true},
    {.family = "mixtral", .experts = 4},
    {.family = "mixtral", .heads = 6, .kv_heads = 2, .experts = 2, .tied = true},
    {.family = "gpt", .kv_heads = 4, .tied = true},
    {.family = "gpt", .kv_heads = 4, .ffn = 12, .tied = false},
};

TEST(Arrange, WholeTensorsUnderHuggingFaceNames) {
  for (const Tiny& tiny : kTinies) {
    SCOPED_TRACE(tiny.family);
    const std::vector<LogicalState> states = states_of(model_of(tiny));
    const Bundle wholes = wholes_of(states);
    const auto files = arranged(naming_of(tiny, "hf"), states);
    ASSERT_EQ(files.size(), 1U);
    EXPECT_EQ(files[0].name, "model.safetensors");
    EXPECT_THAT(files[0].metadata, ElementsAre(std::pair<const std::string, std::string>("format", "pt")));
    expect_equal(filled(files[0].tensors, wholes), expected_hugging_face(tiny, wholes));
  }
}

TEST(Arrange, LogicalNamesKeepEveryTensor) {
  const std::vector<LogicalState> states = states_of(model_of({}));
  const Bundle wholes = wholes_of(states);
  expect_equal(filled(arranged(Naming::logical(), states)[0].tensors, wholes), wholes);
}

// Meta's order: of each query and key head, rows 2j and 2j + 1 are j and head_dim/2 + j of the logical one.
TEST(Arrange, InterleavedRotaryRows) {
  const Tiny tiny{.head_dim = 6, .hidden = 10};
  std::string text = family_named("llama").text();
  for (const char* rows : {"rows: QUERY", "rows: KEY"}) {
    for (size_t at = text.find(rows); at != std::string::npos; at = text.find(rows, at + 30))
      text.insert(at + std::string(rows).size(), " rotary: INTERLEAVED");
  }
  const auto family = Family::parse(text, "meta.textproto");
  ASSERT_TRUE(family.ok()) << message_of(family.status());
  const auto naming = Naming::of(*family, "hf", sizes_of(tiny));
  ASSERT_TRUE(naming.ok());
  const std::vector<LogicalState> states = states_of(model_of(tiny));
  const Bundle wholes = wholes_of(states);
  Bundle expected = expected_hugging_face(tiny, wholes);
  for (auto& [name, dense] : expected) {
    if (name.find("q_proj") == std::string::npos && name.find("k_proj") == std::string::npos) continue;
    const Dense half = dense;
    const int64_t width = half.shape[1];
    for (int64_t row = 0; row < half.shape[0]; ++row) {
      const int64_t inside = row % tiny.head_dim;
      const int64_t from = row - inside + (inside % 2 == 0 ? inside / 2 : tiny.head_dim / 2 + inside / 2);
      std::copy_n(half.values.begin() + from * width, width, dense.values.begin() + row * width);
    }
    EXPECT_NE(dense.values, half.values);
  }
  expect_equal(filled(arranged(*naming, states)[0].tensors, wholes), expected);
}

// Counts, some names, and as published the bytes and the files of 5 GB (GPT-2 is published in F32).
TEST(Arrange, NamesOfPublishedModels) {
  struct Known {
    std::string model;
    std::string family;
    size_t tensors;
    size_t files;
    int64_t bytes;  // in BF16
    std::vector<std::pair<std::string, std::vector<int64_t>>> names;
  };
  const std::vector<Known> all = {
      {"gpt2",
       "gpt",
       148,
       1,
       248879616,
       {{"transformer.wte.weight", {50257, 768}},
        {"transformer.h.11.attn.c_attn.weight", {768, 2304}},
        {"transformer.h.0.mlp.c_proj.weight", {3072, 768}}}},
      {"llama3-8b",
       "llama",
       291,
       4,
       16060522496,
       {{"model.layers.31.self_attn.k_proj.weight", {1024, 4096}},
        {"model.layers.0.mlp.down_proj.weight", {4096, 14336}},
        {"lm_head.weight", {128256, 4096}}}},
      {"mixtral-8x7b",
       "mixtral",
       995,
       19,
       93405585408,
       {{"model.layers.31.block_sparse_moe.experts.7.w2.weight", {4096, 14336}},
        {"model.layers.0.block_sparse_moe.gate.weight", {8, 4096}}}},
  };
  for (const Known& known : all) {
    const Family family = family_named(known.family);
    const auto model = model::find_model(known.model);
    ASSERT_TRUE(model.ok());
    const auto naming = Naming::of(family, "hf", *family.sizes_of_model(*model));
    ASSERT_TRUE(naming.ok());
    const auto files = arranged(*naming, states_of(*model));
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const ArrangedFile& file : files) {
      for (const ArrangedTensor& tensor : file.tensors) shapes[tensor.name] = tensor.shape;
    }
    EXPECT_EQ(shapes.size(), known.tensors) << known.model;
    for (const auto& [name, shape] : known.names) EXPECT_EQ(shapes[name], shape) << name;
    EXPECT_EQ(files.size(), known.files) << known.model;
    EXPECT_THAT(index_text(files), HasSubstr(fmt::format("\"total_size\": {}\n", known.bytes)));
  }
}

TEST(Arrange, FillsShardsInOrder) {
  const Tiny tiny{.layers = 1, .vocab = 64, .tied = true};  // the embedding has 2048 bytes
  const std::vector<LogicalState> states = states_of(model_of(tiny));
  const auto files = arranged(naming_of(tiny, "hf"), states, {.shard_bytes = 1024});
  std::vector<std::string> contents;
  for (const ArrangedFile& file : files) {
    contents.push_back(file.name + ":");
    for (const ArrangedTensor& tensor : file.tensors) contents.back() += " " + tensor.name;
  }
  EXPECT_THAT(contents, ElementsAre("model-00001-of-00005.safetensors: model.embed_tokens.weight",
                                    "model-00002-of-00005.safetensors: model.layers.0.self_attn.q_proj.weight "
                                    "model.layers.0.self_attn.k_proj.weight model.layers.0.self_attn.v_proj.weight",
                                    "model-00003-of-00005.safetensors: model.layers.0.self_attn.o_proj.weight "
                                    "model.layers.0.mlp.gate_proj.weight",
                                    "model-00004-of-00005.safetensors: model.layers.0.mlp.up_proj.weight "
                                    "model.layers.0.mlp.down_proj.weight",
                                    "model-00005-of-00005.safetensors: model.layers.0.input_layernorm.weight "
                                    "model.layers.0.post_attention_layernorm.weight model.norm.weight"));
}

TEST(Arrange, IndexIsTheOneOfTransformers) {
  const std::vector<ArrangedFile> files = {{.name = "model-00001-of-00002.safetensors",
                                            .tensors = {{.name = "b", .dtype = tensor::DType::kF32, .shape = {2, 3}}}},
                                           {.name = "model-00002-of-00002.safetensors",
                                            .tensors = {{.name = "a", .dtype = tensor::DType::kBF16, .shape = {5}}}}};
  EXPECT_EQ(index_text(files), R"({
  "metadata": {
    "total_size": 34
  },
  "weight_map": {
    "a": "model-00002-of-00002.safetensors",
    "b": "model-00001-of-00002.safetensors"
  }
}
)");
}

TEST(Arrange, WritesAPrefixThatIsAskedFor) {
  const Tiny tiny{.family = "gpt", .kv_heads = 4, .tied = false};
  const std::vector<LogicalState> states = states_of(model_of(tiny));
  const Naming naming = naming_of(tiny, "hf");
  EXPECT_THAT(naming.prefixes(), ElementsAre("transformer.", ""));
  std::vector<std::string> names;
  const auto files = arranged(naming, states, {.prefix = ""});
  for (const ArrangedTensor& tensor : files[0].tensors) names.push_back(tensor.name);
  EXPECT_EQ(names.front(), "wte.weight");
  EXPECT_EQ(names.back(), "lm_head.weight");  // which has none
  EXPECT_THAT(message_of(arrange_whole(naming, states, {.prefix = "x."}).status()), HasSubstr("has no prefix \"x.\""));
}

TEST(Arrange, RefusesWhatDoesNotFit) {
  const Naming naming = naming_of({}, "hf");
  std::vector<LogicalState> states = states_of(model_of({}));
  states[1].shape = {17};
  EXPECT_EQ(message_of(arrange_whole(naming, states).status()),
            "tensor \"layers.0.attention_norm.weight\" is [17], in family \"llama\" with these sizes [16]");
  states = states_of(model_of({}));
  states.push_back(states[3]);
  EXPECT_THAT(message_of(arrange_whole(naming, states).status()), HasSubstr("is given twice"));
  states = states_of(model_of({}));
  states.push_back({.name = "stray.weight", .shape = {1}});
  EXPECT_EQ(message_of(arrange_whole(naming, states).status()),
            "tensor \"stray.weight\": naming \"hf\" of family \"llama\" has no place for it here");
  const Naming megatron = naming_of({}, "megatron");
  states = states_of(model_of({}));
  states[5].dtype = tensor::DType::kF32;  // layers.0.mlp.gate.weight
  EXPECT_EQ(message_of(arrange_whole(megatron, states).status()),
            "\"decoder.layers.0.mlp.linear_fc1.weight\" would hold tensor \"layers.0.mlp.gate.weight\" in F32 and "
            "tensor \"layers.0.mlp.up.weight\" in BF16");
  states.erase(states.begin() + 5);
  EXPECT_EQ(message_of(arrange_whole(megatron, states).status()),
            "\"decoder.layers.0.mlp.linear_fc1.weight\" needs tensor \"layers.0.mlp.gate.weight\", which is not there, "
            "beside tensor \"layers.0.mlp.up.weight\"");
  EXPECT_THAT(message_of(Naming::of(family_named("llama"), "megatorn", sizes_of({})).status()),
              HasSubstr("did you mean \"megatron\"?"));
}

}  // namespace
}  // namespace scalai::store
