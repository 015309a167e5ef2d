#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/naming/internal/whole_place.h"
#include "ptc/store/naming/testing/arrange.h"

namespace scalai::store {
namespace {

using collection::ParallelConfig;
using tensor::DType;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<ArrangedFile> whole_files(const Tiny& tiny, const WholeOptions& options = {}) {
  auto files = arrange_whole(naming_of(tiny, "hf"), states_of(model_of(tiny)), options);
  EXPECT_TRUE(files.ok()) << message_of(files.status());
  return *files;
}

std::vector<ArrangedFile> rank_files(const Tiny& tiny, const Naming& naming, const ParallelConfig& config) {
  const collection::Collection collection = collection_of(tiny, config);
  const auto arranger = RankArranger::make(naming, collection);
  EXPECT_TRUE(arranger.ok()) << message_of(arranger.status());
  std::vector<ArrangedFile> files;
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    auto file = arranger->arrange(LogicalRank(rank));
    EXPECT_TRUE(file.ok()) << message_of(file.status());
    files.push_back(*file);
  }
  return files;
}

FoundTensor& tensor_named(std::vector<FoundFile>& files, const std::string& name) {
  for (FoundFile& file : files) {
    for (FoundTensor& tensor : file.tensors) {
      if (tensor.name == name) return tensor;
    }
  }
  SCALAI_CHECK(false, name);
  return files.front().tensors.front();
}

void remove_named(std::vector<FoundFile>& files, const std::string& text) {
  for (FoundFile& file : files)
    std::erase_if(file.tensors, [&](const FoundTensor& tensor) { return tensor.name.find(text) != std::string::npos; });
}

void rename_all(std::vector<FoundFile>& files, const std::string& from, const std::string& to) {
  for (FoundFile& file : files) {
    for (FoundTensor& tensor : file.tensors) {
      const size_t at = tensor.name.find(from);
      if (at != std::string::npos) tensor.name.replace(at, from.size(), to);
    }
  }
}

void expect_same_tensors(const std::vector<ArrangedFile>& actual, const std::vector<ArrangedFile>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    std::vector<ArrangedTensor> tensors = expected[i].tensors;
    for (ArrangedTensor& tensor : tensors) tensor.also.clear();  // is of writing
    EXPECT_EQ(actual[i].tensors, tensors) << actual[i].name;
  }
}

TEST(ArrangeRead, WholeTensorsAsTheyWereArranged) {
  for (const Tiny& tiny : {Tiny{}, Tiny{.kv_heads = 1, .bias = true}, Tiny{.family = "mixtral", .experts = 2},
                           Tiny{.family = "gpt", .kv_heads = 4, .tied = true}}) {
    const std::vector<ArrangedFile> files = whole_files(tiny, {.shard_bytes = 2000});
    EXPECT_GT(files.size(), 2U);
    const auto read = read_whole(naming_of(tiny, "hf"), found_in(files));
    ASSERT_TRUE(read.ok()) << message_of(read.status());
    expect_same_tensors(read->files, files);
    EXPECT_EQ(read->states, states_of(model_of(tiny)));
    EXPECT_THAT(read->ignored, IsEmpty());
  }
}

TEST(ArrangeRead, FindsPrefixesAliasesAndWhatToIgnore) {
  const Tiny tiny{.family = "gpt", .layers = 1, .kv_heads = 4, .tied = true};
  const Naming naming = naming_of(tiny, "hf");
  std::vector<FoundFile> files = found_in(whole_files(tiny, {.prefix = "transformer."}));
  files[0].tensors.push_back({"transformer.h.0.attn.bias", DType::kU8, {1, 1, 8, 8}});
  files[0].tensors.push_back({"lm_head.weight", DType::kBF16, {37, 16}});
  const auto read = read_whole(naming, files);
  ASSERT_TRUE(read.ok()) << message_of(read.status());
  EXPECT_EQ(read->prefix, "transformer.");
  EXPECT_THAT(read->ignored, ElementsAre("model.safetensors: transformer.h.0.attn.bias"));
  const ArrangedTensor& alias = read->files[0].tensors.back();
  EXPECT_EQ(alias.name, "lm_head.weight");
  EXPECT_EQ(alias.pieces, read->files[0].tensors.front().pieces);  // of transformer.wte.weight
  // Untied, the head is one of its own, and missed.
  Tiny untied = tiny;
  untied.tied = false;
  remove_named(files, "lm_head");
  EXPECT_EQ(message_of(read_whole(naming_of(untied, "hf"), files).status()), "\"lm_head.weight\" [37, 16] is missing");
}

TEST(ArrangeRead, TakesTheDtypesThatAreStored) {
  std::vector<FoundFile> files = found_in(whole_files({}));
  tensor_named(files, "model.norm.weight").dtype = DType::kF32;
  const auto read = read_whole(naming_of({}, "hf"), files);
  ASSERT_TRUE(read.ok());
  for (const LogicalState& state : read->states)
    EXPECT_EQ(state.dtype, state.name == "final_norm.weight" ? DType::kF32 : DType::kBF16) << state.name;
  tensor_named(files, "model.layers.2.self_attn.k_proj.weight").dtype = DType::kF16;
  EXPECT_EQ(message_of(read_whole(naming_of({}, "hf"), files).status()),
            "tensor \"layers.2.attention.qkv.weight\" is BF16 in \"model.safetensors: "
            "model.layers.2.self_attn.q_proj.weight\" and F16 in \"model.safetensors: "
            "model.layers.2.self_attn.k_proj.weight\"");
}

TEST(ArrangeRead, NamesAllProblemsAtOnce) {
  std::vector<FoundFile> files = found_in(whole_files({}));
  remove_named(files, "layers.1.mlp.up_proj");
  tensor_named(files, "model.embed_tokens.weight").shape = {128, 16};
  tensor_named(files, "lm_head.weight").shape = {30, 16};
  tensor_named(files, "model.layers.0.self_attn.k_proj.weight").shape = {16, 8};
  files[0].tensors.push_back({"model.layers.0.extra", DType::kBF16, {3}});
  files.push_back({"other.safetensors", {{"model.norm.weight", DType::kBF16, {16}}}});
  EXPECT_EQ(
      message_of(read_whole(naming_of({}, "hf"), files).status()),
      "\"model.norm.weight\" is in model.safetensors and in other.safetensors\n"
      "model.safetensors: \"model.embed_tokens.weight\" is [128, 16], expected [37, 16] (the vocabulary is padded to "
      "128 rows?)\n"
      "model.safetensors: \"model.layers.0.self_attn.k_proj.weight\" is [16, 8], expected [8, 16] (it is "
      "transposed)\n"
      "model.safetensors: \"lm_head.weight\" is [30, 16], expected [37, 16] (the vocabulary has 30 rows here, the "
      "sizes say 37)\n"
      "\"model.layers.1.mlp.up_proj.weight\" [16, 16] is missing\n"
      "model.safetensors: \"model.layers.0.extra\" [3] is not expected");
}

TEST(ArrangeRead, TellsOtherNumbersOfLayers) {
  const std::vector<FoundFile> files = found_in(whole_files({.layers = 4}));
  const std::string more = message_of(read_whole(naming_of({.layers = 3}, "hf"), files).status());
  EXPECT_THAT(more, HasSubstr("\"model.layers.3.self_attn.q_proj.weight\" [16, 16] is not expected"));
  EXPECT_THAT(more, HasSubstr("hint: the files have 4 layers, the sizes say 3"));
  const std::string fewer = message_of(read_whole(naming_of({.layers = 90}, "hf"), files).status());
  EXPECT_THAT(fewer, HasSubstr("hint: the files have 4 layers, the sizes say 90"));
  EXPECT_THAT(fewer, HasSubstr("… and 724 more"));  // 86 layers of 9 tensors, less 50
}

TEST(ArrangeRead, RanksAsTheyWereArranged) {
  const std::vector<std::pair<Tiny, ParallelConfig>> cases = {
      {{}, {.tp = 4, .pp = 2, .dp = 2, .zero = 1}},
      {{.tied = true}, {.tp = 2, .pp = 2, .vpp = 2}},
      {{.previous = true}, {.tp = 2, .pp = 2, .dp = 2, .zero = 1}},
      {{.family = "mixtral", .experts = 4}, {.tp = 2, .pp = 2, .dp = 2, .ep = 4, .zero = 1}},
      {{.family = "gpt", .kv_heads = 4, .tied = true}, {.tp = 2, .pp = 3, .zero = 0}}};
  for (const auto& [tiny, config] : cases) {
    SCOPED_TRACE(tiny.family);
    const collection::Collection collection = collection_of(tiny, config);
    for (const Naming& naming : {naming_of(tiny, "megatron"), Naming::logical()}) {
      const std::vector<ArrangedFile> files = rank_files(tiny, naming, config);
      for (const Expect expect : {Expect::kAll, Expect::kFound}) {
        const auto read = read_ranks(naming, collection, found_in(files), expect);
        ASSERT_TRUE(read.ok()) << message_of(read.status());
        expect_same_tensors(read->files, files);
        EXPECT_EQ(with_states(collection, read->states), collection);
      }
    }
  }
}

TEST(ArrangeRead, APreviousVersionHasItsParametersNameAndASuffix) {
  const Tiny tiny{.layers = 1, .previous = true};
  for (const auto& [naming, name] : {std::pair("megatron", "decoder.final_layernorm.weight.previous"),
                                     std::pair("logical", "final_norm.weight.previous")}) {
    std::vector<FoundFile> files =
        found_in(rank_files(tiny, naming == std::string("logical") ? Naming::logical() : naming_of(tiny, naming), {}));
    EXPECT_EQ(tensor_named(files, name).dtype, DType::kF16);
  }
}

TEST(ArrangeRead, RanksUnderOtherNames) {
  const Tiny tiny{.family = "mixtral", .layers = 2, .experts = 2, .tied = true};
  const ParallelConfig config{.tp = 2, .pp = 2};
  const Naming naming = naming_of(tiny, "megatron");
  const collection::Collection collection = collection_of(tiny, config);
  std::vector<FoundFile> files = found_in(rank_files(tiny, naming, config));
  rename_all(files, "input_layernorm.weight", "self_attention.linear_qkv.layer_norm_weight");
  for (const char* index : {"0", "1"}) {
    rename_all(files, fmt::format("local_experts.{}.linear_fc1.weight", index),
               fmt::format("linear_fc1.weight{}", index));
    rename_all(files, fmt::format("local_experts.{}.linear_fc2.weight", index),
               fmt::format("linear_fc2.weight{}", index));
  }
  for (FoundFile& file : files) {
    for (FoundTensor& tensor : file.tensors) {
      if (tensor.name.find("layer") != std::string::npos || tensor.name.find("embedding") != std::string::npos)
        tensor.name = "module." + tensor.name;
    }
    file.tensors.push_back({"module.decoder.layers.0.mlp.router._extra_state", DType::kU8, {5}});
  }
  const auto read = read_ranks(naming, collection, files, Expect::kAll);
  ASSERT_TRUE(read.ok()) << message_of(read.status());
  EXPECT_EQ(read->prefix, "module.");
  EXPECT_EQ(read->ignored.size(), 4U);
  EXPECT_EQ(read->files[0].tensors.front().name, files[0].tensors.front().name);
  files[0].tensors.push_back({"decoder.layers.0.input_layernorm.weight", DType::kF16, {16}});
  EXPECT_THAT(message_of(read_ranks(naming, collection, files, Expect::kAll).status()),
              HasSubstr("are the same tensor under two names"));
}

TEST(ArrangeRead, ParametersAloneAreACheckpointOfOthers) {
  const ParallelConfig config{.tp = 2, .pp = 2, .dp = 2, .zero = 1};
  const Naming naming = naming_of({}, "megatron");
  const collection::Collection collection = collection_of({}, config);
  std::vector<FoundFile> files = found_in(rank_files({}, naming, config));
  for (const char* name : {".exp_avg", ".master", "rng.", "data.cursor"}) remove_named(files, name);  // and .exp_avg_sq
  for (FoundFile& file : files) {
    for (FoundTensor& tensor : file.tensors) {
      if (tensor.name != "step") tensor.dtype = DType::kBF16;
    }
  }
  const auto read = read_ranks(naming, collection, files, Expect::kFound);
  ASSERT_TRUE(read.ok()) << message_of(read.status());
  const collection::Collection found = with_states(collection, read->states);
  EXPECT_EQ(found.tensors.size(), model_of({}).params.size() + 1);
  EXPECT_EQ(found.tensors.front().dtype, DType::kBF16);
  EXPECT_EQ(found.tensors.back().name, "step");
  EXPECT_EQ(message_of(collection::validate(found)), "");
  EXPECT_THAT(message_of(read_ranks(naming, collection, files, Expect::kAll).status()),
              testing::StartsWith("no file has any \"*.master\"\nno file has any \"*.exp_avg\"\nno file has any "
                                  "\"*.exp_avg_sq\"\nno file has \"rng.host\"\nno file has \"rng.device\"\nno file "
                                  "has \"data.cursor\"\n"));
  // Of a kind all or nothing.
  files[3].tensors.push_back({"decoder.final_layernorm.weight.exp_avg", DType::kF32, {8}});
  EXPECT_THAT(message_of(read_ranks(naming, collection, files, Expect::kFound).status()), HasSubstr("not expected"));
  std::vector<FoundFile> half = found_in(rank_files({}, naming, config));
  remove_named(half, "linear_proj.weight.master");
  EXPECT_THAT(
      message_of(read_ranks(naming, collection, half, Expect::kFound).status()),
      HasSubstr("rank_007.safetensors: \"decoder.layers.1.self_attention.linear_proj.weight.master\" [64] is missing"));
}

TEST(ArrangeRead, TellsThatTheNamesAreOthers) {
  const std::string whole = message_of(read_whole(naming_of({}, "megatron"), found_in(whole_files({}))).status());
  EXPECT_THAT(whole, testing::StartsWith("no tensor has a name of naming \"megatron\"\n"));
  const collection::Collection collection = collection_of({}, {});
  const std::vector<FoundFile> files = found_in(rank_files({}, Naming::logical(), {}));
  EXPECT_THAT(message_of(read_ranks(naming_of({}, "megatron"), collection, files, Expect::kFound).status()),
              testing::StartsWith("no file has a parameter under the expected name\n"));
}

TEST(ArrangeRead, RanksWithProblems) {
  const ParallelConfig config{.tp = 2};
  const Naming naming = naming_of({}, "megatron");
  const collection::Collection collection = collection_of({}, config);
  std::vector<FoundFile> files = found_in(rank_files({}, naming, config));
  files[1].tensors.pop_back();
  files.pop_back();
  EXPECT_THAT(message_of(read_ranks(naming, collection, files, Expect::kAll).status()),
              HasSubstr("tp2 has 2 ranks, 1 files are given"));
  files = found_in(rank_files({}, naming, config));
  for (FoundFile& file : files) {
    for (FoundTensor& tensor : file.tensors) {
      if (tensor.name == "embedding.word_embeddings.weight") tensor.shape[0] = 64;
    }
  }
  tensor_named(files, "decoder.layers.1.mlp.linear_fc2.weight").dtype = DType::kF32;
  const std::string text = message_of(read_ranks(naming, collection, files, Expect::kFound).status());
  EXPECT_THAT(text,
              HasSubstr("rank_001.safetensors: \"embedding.word_embeddings.weight\" is [64, 16], expected [128, 16]"));
  EXPECT_THAT(text, HasSubstr("tensor \"layers.1.mlp.down.weight\" is F32 in \"rank_000.safetensors: "
                              "decoder.layers.1.mlp.linear_fc2.weight\" and F16 in \"rank_001.safetensors"));
  EXPECT_THAT(message_of(read_ranks(naming, collection, files, Expect::kAll).status()),
              HasSubstr("\"decoder.layers.1.mlp.linear_fc2.weight\" is F32, expected F16"));
}

}  // namespace
}  // namespace scalai::store
