#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/naming/internal/naming_state.h"
#include "ptc/store/naming/testing/arrange.h"

namespace scalai::store {
namespace {

using collection::ParallelConfig;
using testing::HasSubstr;

absl::StatusOr<ArrangedFile> arrange_rank(const Naming& naming, const collection::Collection& collection,
                                          LogicalRank rank) {
  SCALAI_ASSIGN_OR_RETURN(const RankArranger arranger, RankArranger::make(naming, collection));
  return arranger.arrange(rank);
}

void expect_megatron(const Tiny& tiny, const ParallelConfig& config) {
  SCOPED_TRACE(fmt::format("{} {} kv{} {}", tiny.family, canonical(config), tiny.kv_heads, tiny.tied ? "tied" : ""));
  const collection::Collection collection = collection_of(tiny, config);
  const Bundle wholes = wholes_of(collection);
  const auto arranger = RankArranger::make(naming_of(tiny, "megatron"), collection);
  ASSERT_TRUE(arranger.ok()) << message_of(arranger.status());
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    SCOPED_TRACE(rank);
    const auto file = arranger->arrange(LogicalRank(rank));
    ASSERT_TRUE(file.ok()) << message_of(file.status());
    EXPECT_EQ(file->name, fmt::format("rank_{:03}.safetensors", rank));
    expect_equal(filled(file->tensors, wholes), expected_megatron(tiny, wholes, config, rank));
  }
}

TEST(ArrangeRank, MegatronLlamaInEveryLayout) {
  for (const bool tied : {false, true}) {
    for (const int kv_heads : {1, 2, 4}) {
      const Tiny tiny{.layers = 5, .kv_heads = kv_heads, .ffn = 8, .tied = tied, .bias = kv_heads == 2};
      for (const int tp : {1, 2, 4}) {  // more than the groups, too
        for (const int pp : {1, 2, 3}) {
          for (const int vpp : {1, 2}) {
            if (pp * vpp > tiny.layers) continue;
            for (const int zero : {0, 1, 3})
              expect_megatron(tiny, {.tp = tp, .pp = pp, .dp = 2, .vpp = vpp, .zero = zero});
          }
        }
      }
      expect_megatron(tiny, {.tp = 2, .pp = 2, .dp = 3, .zero = 1});
      expect_megatron(tiny, {.tp = 1, .pp = 5, .dp = 7, .zero = 2});
    }
  }
}

TEST(ArrangeRank, MegatronGptInEveryLayout) {
  for (const bool tied : {false, true}) {
    const Tiny tiny{.family = "gpt", .layers = 3, .kv_heads = 4, .tied = tied};
    for (const int tp : {1, 2, 4}) {
      for (const int pp : {1, 3}) {
        for (const int zero : {0, 1}) expect_megatron(tiny, {.tp = tp, .pp = pp, .dp = 2, .zero = zero});
      }
    }
  }
}

TEST(ArrangeRank, MegatronMixtralInEveryLayout) {
  const Tiny tiny{.family = "mixtral", .layers = 4, .ffn = 8, .experts = 4};
  for (const int tp : {1, 2}) {
    for (const int ep : {1, 2, 4}) {
      for (const int etp : {1, 2}) {
        for (const int pp : {1, 2}) {
          if (tp * 4 % (ep * etp) != 0) continue;
          for (const int zero : {0, 1})
            expect_megatron(tiny, {.tp = tp, .pp = pp, .dp = 4, .ep = ep, .etp = etp, .vpp = pp, .zero = zero});
        }
      }
    }
  }
}

// A norm belongs to the linear layer behind it where there is one; experts have one module.
TEST(ArrangeRank, NamesOfTransformerEngine) {
  const auto names_of = [](const Tiny& tiny) {
    const collection::Collection collection = collection_of(tiny, {});
    const auto arranger = RankArranger::make(naming_of(tiny, "megatron"), collection, /*fused=*/true);
    SCALAI_CHECK(arranger.ok());
    const auto file = arranger->arrange(LogicalRank(0));
    SCALAI_CHECK(file.ok());
    std::set<std::string> names;
    for (const ArrangedTensor& tensor : file->tensors) names.insert(tensor.name);
    return names;
  };
  const std::string layer = "decoder.layers.0.";
  const std::set<std::string> dense = names_of({}), sparse = names_of({.family = "mixtral", .experts = 2});
  for (const auto& names : {dense, sparse}) {
    EXPECT_EQ(names.count(layer + "self_attention.linear_qkv.layer_norm_weight"), 1U);
    EXPECT_EQ(names.count(layer + "input_layernorm.weight"), 0U);
    EXPECT_EQ(names.count(layer + "self_attention.linear_qkv.layer_norm_weight.exp_avg"), 1U);
  }
  EXPECT_EQ(dense.count(layer + "mlp.linear_fc1.layer_norm_weight"), 1U);
  EXPECT_EQ(dense.count(layer + "pre_mlp_layernorm.weight"), 0U);
  EXPECT_EQ(sparse.count(layer + "pre_mlp_layernorm.weight"), 1U);
  EXPECT_EQ(sparse.count(layer + "mlp.experts.linear_fc1.weight1"), 1U);
  EXPECT_EQ(sparse.count(layer + "mlp.experts.local_experts.1.linear_fc1.weight"), 0U);
}

TEST(ArrangeRank, PadsTheVocabularyOfGpt2) {
  const Tiny tiny{.family = "gpt",
                  .layers = 2,
                  .heads = 8,
                  .kv_heads = 8,
                  .head_dim = 1,
                  .hidden = 8,
                  .ffn = 8,
                  .vocab = 50257,
                  .sequence = 2,
                  .tied = true};
  const std::map<int, int64_t> rows = {{1, 50304}, {2, 25216}, {4, 12672}, {8, 6400}};
  for (const auto& [tp, expected] : rows) {
    const ParallelConfig config{.tp = tp, .pp = 2, .zero = 1};
    if (tp <= 2) expect_megatron(tiny, config);
    const auto file = arrange_rank(naming_of(tiny, "megatron"), collection_of(tiny, config), LogicalRank(2 * tp - 1));
    ASSERT_TRUE(file.ok());
    int64_t found = 0;
    for (const ArrangedTensor& tensor : file->tensors) {
      if (tensor.name == "output_layer.weight") found = tensor.shape[0];
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(ArrangeRank, HuggingFaceNamesOfWholeGroups) {
  for (const bool bias : {false, true}) {
    for (const int tp : {1, 2}) {
      const Tiny tiny{.bias = bias};
      const ParallelConfig config{.tp = tp};
      const collection::Collection collection = collection_of(tiny, config);
      const Bundle wholes = wholes_of(collection);
      for (int rank = 0; rank < tp; ++rank) {
        const auto file = arrange_rank(naming_of(tiny, "hf"), collection, LogicalRank(rank));
        ASSERT_TRUE(file.ok()) << message_of(file.status());
        std::vector<ArrangedTensor> params;
        for (const ArrangedTensor& tensor : file->tensors) {
          if (tensor.name.ends_with(".weight") || tensor.name.ends_with(".bias")) params.push_back(tensor);
        }
        expect_equal(filled(params, wholes), expected_hugging_face_rank(tiny, wholes, config, rank));
      }
    }
  }
}

TEST(ArrangeRank, RefusesRowsInsideAGroup) {
  const auto file = arrange_rank(naming_of({}, "hf"), collection_of({}, {.tp = 4}), LogicalRank(1));
  EXPECT_EQ(message_of(file.status()),
            "tensor \"layers.0.attention.qkv.weight\" box [8:16, 0:16] is not whole query groups of 16 rows, so its "
            "queries, keys and values cannot be stored apart (use a naming that keeps them together, or less tp)");
  const auto flat = arrange_rank(naming_of({}, "hf"), collection_of({}, {.dp = 2, .zero = 1}), LogicalRank(1));
  EXPECT_THAT(message_of(flat.status()), HasSubstr("tensor \"layers.0.attention.qkv.weight.master\" box ["));
  EXPECT_THAT(message_of(flat.status()), HasSubstr("is a flat shard"));
}

TEST(ArrangeRank, LogicalNamesAreTheRanksBuffers) {
  const Tiny tiny{.family = "mixtral", .experts = 2};
  const collection::Collection collection = collection_of(tiny, {.tp = 2, .pp = 2, .dp = 2, .ep = 2, .zero = 1});
  const Bundle wholes = wholes_of(collection);
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    const auto file = arrange_rank(Naming::logical(), collection, LogicalRank(rank));
    ASSERT_TRUE(file.ok()) << message_of(file.status());
    size_t held = 0;
    std::map<std::string, const ArrangedTensor*> tensors;
    for (const ArrangedTensor& tensor : file->tensors) tensors[tensor.name] = &tensor;
    for (size_t i = 0; i < collection.tensors.size(); ++i) {
      const tensor::LocalBuffer local = collection.pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank));
      if (local.elements == 0) continue;
      ++held;
      const auto found = tensors.find(collection.tensors[i].name);
      ASSERT_NE(found, tensors.end()) << collection.tensors[i].name;
      EXPECT_EQ(tensor::Shape(found->second->shape).elements(), local.elements);
      ASSERT_EQ(found->second->pieces.size(), local.pieces.size());
      for (size_t k = 0; k < local.pieces.size(); ++k) EXPECT_EQ(found->second->pieces[k].piece, local.pieces[k]);
    }
    EXPECT_EQ(held, file->tensors.size());
  }
}

// In any layout a rank's file has what the collection says that the rank holds, each element once (filled() looks).
TEST(ArrangeRank, HoldsWhatTheCollectionSays) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto pick = [&](std::initializer_list<int> from) {
      return *(from.begin() + random.below(static_cast<int64_t>(from.size())));
    };
    Tiny tiny{.layers = 6, .ffn = 8, .tied = random.below(2) == 0};
    if (seed % 3 == 1) tiny.family = "mixtral", tiny.experts = 4;
    if (seed % 3 == 2) tiny.family = "gpt", tiny.kv_heads = 4;
    ParallelConfig config{.tp = pick({1, 2, 4}), .pp = pick({1, 2, 3}), .dp = pick({1, 2, 3}), .cp = pick({1, 2})};
    config.zero = pick({0, 1, 2});
    config.vpp = config.pp > 1 ? pick({1, 2}) : 1;
    if (random.below(2) == 0) config.order = {"tp", "dp", "cp", "pp"};
    if (config.pp == 3 && config.vpp == 1) config.stages = {1, 4, 1};
    if (tiny.experts > 0 && config.tp % 2 == 0) config.ep = 2;
    const collection::MegatronOptions buckets{.distributed_optimizer_buckets = random.below(2) == 0};
    SCOPED_TRACE(tiny.family + " " + canonical(config));
    std::vector<DeviceId> devices;
    for (int i = 0; i < config.world(); ++i) devices.emplace_back(i);
    const auto collection = collection::megatron_collection(model_of(tiny), {}, config, devices, buckets);
    ASSERT_TRUE(collection.ok()) << message_of(collection.status());
    const Bundle wholes = wholes_of(*collection);
    const auto arranger = RankArranger::make(naming_of(tiny, "megatron"), *collection);
    ASSERT_TRUE(arranger.ok()) << message_of(arranger.status());
    for (int rank = 0; rank < collection->ranks(); ++rank) {
      const auto file = arranger->arrange(LogicalRank(rank));
      ASSERT_TRUE(file.ok()) << message_of(file.status());
      filled(file->tensors, wholes);
      std::map<std::string, std::vector<tensor::Box>> placed;
      for (const ArrangedTensor& tensor : file->tensors) {
        for (const PlacedPiece& piece : tensor.pieces) placed[piece.logical].push_back(piece.piece.box);
      }
      for (size_t i = 0; i < collection->tensors.size(); ++i) {
        std::vector<tensor::Box> held;
        for (const auto& piece : collection->pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces)
          held.push_back(piece.box);
        EXPECT_EQ(merge(placed[collection->tensors[i].name]), merge(held)) << collection->tensors[i].name;
      }
    }
  }
}

TEST(ArrangeRank, ComparesCollectionAndFamily) {
  collection::Collection collection = collection_of({}, {.tp = 2});
  EXPECT_THAT(message_of(RankArranger::make(naming_of({.vocab = 38}, "megatron"), collection).status()),
              HasSubstr("tensor \"embedding.word.weight\" is [37, 16], in family \"llama\" with these sizes [38, 16]"));
  EXPECT_THAT(message_of(RankArranger::make(naming_of({.layers = 5}, "megatron"), collection).status()),
              HasSubstr("tensor \"layers.4.attention_norm.weight\" of family \"llama\" is not in collection"));
  const auto stray = arrange_rank(naming_of({.layers = 3}, "megatron"), collection, LogicalRank(0));
  EXPECT_THAT(message_of(stray.status()), HasSubstr("has no place for it here"));
}

}  // namespace
}  // namespace scalai::store
