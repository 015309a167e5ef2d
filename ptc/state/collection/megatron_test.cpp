#include "ptc/state/collection/megatron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ptc/base/status.h"

namespace scalai::collection {
namespace {

using model::Param;
using model::TpRule;
using tensor::Box;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// One vocabulary, and a column, a row and a norm in each of four layers; tied head; optionally experts.
model::Model small_model(int experts = 0) {
  model::Model model{.name = "small", .family = "gpt", .layers = 4, .hidden = 8, .heads = 4, .kv_heads = 4, .ffn = 16};
  model.vocab = 300;
  model.experts = experts;
  model.tied = true;
  model.params.push_back({.name = "embedding", .shape = {300, 8}, .rule = TpRule::kVocab, .layer = Param::kBothEnds});
  for (int layer = 0; layer < 4; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    model.params.push_back({.name = prefix + ".norm", .shape = {8}, .layer = layer});
    model.params.push_back({.name = prefix + ".up", .shape = {16, 8}, .rule = TpRule::kColumn, .layer = layer});
    model.params.push_back({.name = prefix + ".down", .shape = {8, 16}, .rule = TpRule::kRow, .layer = layer});
    for (int expert = 0; expert < experts; ++expert) {
      model.params.push_back({.name = prefix + ".expert" + std::to_string(expert),
                              .shape = {16, 8},
                              .rule = TpRule::kColumn,
                              .layer = layer,
                              .expert = expert});
    }
  }
  model.params.push_back({.name = "final_norm", .shape = {8}, .layer = Param::kLast});
  return model;
}

std::vector<DeviceId> devices(int count) {
  std::vector<DeviceId> ids;
  for (int i = 0; i < count; ++i) ids.push_back(DeviceId(i));
  return ids;
}

Collection build(const ParallelConfig& config, int experts = 0) {
  const auto built =
      megatron_collection(small_model(experts), {.param = tensor::DType::kBF16}, config, devices(config.world()));
  EXPECT_TRUE(built.ok()) << message_of(built.status());
  EXPECT_EQ(message_of(validate(*built)), "") << canonical(config);
  return *built;
}

TensorId find(const Collection& collection, const std::string& name) {
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    if (collection.tensors[i].name == name) return TensorId(static_cast<int64_t>(i));
  }
  ADD_FAILURE() << "no tensor " << name;
  return TensorId(0);
}

std::vector<int> holders(const Collection& collection, const std::string& name) {
  std::vector<int> ranks;
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    if (!collection.pieces(find(collection, name), LogicalRank(rank)).pieces.empty()) ranks.push_back(rank);
  }
  return ranks;
}

Box box_of(const Collection& collection, const std::string& name, int rank) {
  return collection.pieces(find(collection, name), LogicalRank(rank)).pieces.at(0).box;
}

TEST(Megatron, TensorParallelRules) {
  const Collection collection = build({.tp = 2});
  EXPECT_EQ(box_of(collection, "layers.0.up", 1), Box({8, 0}, {16, 8}));
  EXPECT_EQ(box_of(collection, "layers.0.down", 1), Box({0, 8}, {8, 16}));
  EXPECT_EQ(box_of(collection, "layers.0.norm", 1), Box({0}, {8}));
  EXPECT_EQ(box_of(collection, "embedding", 0), Box({0, 0}, {256, 8}));  // 300 rows padded to 512
  EXPECT_EQ(box_of(collection, "embedding", 1), Box({256, 0}, {300, 8}));
}

TEST(Megatron, RankOrderIsTpCpDpPp) {
  const Collection collection = build({.tp = 2, .pp = 2, .dp = 2});
  EXPECT_THAT(holders(collection, "layers.1.norm"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(holders(collection, "layers.2.norm"), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(box_of(collection, "layers.2.up", 4), box_of(collection, "layers.2.up", 6));
  EXPECT_EQ(collection.name, "tp2,pp2,dp2");
}

TEST(Megatron, AnotherOrderMovesTheStages) {
  const Collection collection = build({.tp = 2, .pp = 2, .order = {"pp", "tp", "cp", "dp"}});
  EXPECT_THAT(holders(collection, "layers.0.norm"), ElementsAre(0, 2));
  EXPECT_THAT(holders(collection, "layers.3.norm"), ElementsAre(1, 3));
}

TEST(Megatron, EndsOfThePipeline) {
  const Collection collection = build({.pp = 4});
  EXPECT_THAT(holders(collection, "embedding"), ElementsAre(0, 3));
  EXPECT_THAT(holders(collection, "final_norm"), ElementsAre(3));
  EXPECT_THAT(holders(build({.tp = 2}), "embedding"), ElementsAre(0, 1));
}

TEST(Megatron, UnevenAndInterleavedStages) {
  const Collection uneven = build({.pp = 2, .stages = {3, 1}});
  EXPECT_THAT(holders(uneven, "layers.2.norm"), ElementsAre(0));
  EXPECT_THAT(holders(uneven, "layers.3.norm"), ElementsAre(1));
  const Collection ends_count = build({.pp = 3});  // 1, 2, 1
  EXPECT_THAT(holders(ends_count, "layers.0.norm"), ElementsAre(0));
  EXPECT_THAT(holders(ends_count, "layers.1.norm"), ElementsAre(1));
  EXPECT_THAT(holders(ends_count, "layers.2.norm"), ElementsAre(1));
  const Collection interleaved = build({.pp = 2, .vpp = 2});
  EXPECT_THAT(holders(interleaved, "layers.0.norm"), ElementsAre(0));
  EXPECT_THAT(holders(interleaved, "layers.1.norm"), ElementsAre(1));
  EXPECT_THAT(holders(interleaved, "layers.2.norm"), ElementsAre(0));
}

TEST(Megatron, ZeroShardsOptimizerThenParameters) {
  const auto distinct = [](const Collection& collection, const std::string& name) {
    std::set<Box> boxes;
    for (int rank = 0; rank < collection.ranks(); ++rank) boxes.insert(box_of(collection, name, rank));
    return boxes.size();
  };
  EXPECT_EQ(distinct(build({.dp = 4}), "layers.0.up.exp_avg"), 1u);
  EXPECT_EQ(distinct(build({.dp = 4, .zero = 1}), "layers.0.up.exp_avg"), 4u);
  EXPECT_EQ(distinct(build({.dp = 4, .zero = 1}), "layers.0.up"), 1u);
  EXPECT_EQ(distinct(build({.dp = 4, .zero = 2}), "layers.0.up"), 1u);
  EXPECT_EQ(distinct(build({.dp = 4, .zero = 3}), "layers.0.up"), 4u);
  // Ranks that differ in cp share as well: they have the same parameters.
  EXPECT_EQ(distinct(build({.dp = 2, .cp = 2, .zero = 1}), "layers.0.up.exp_avg"), 4u);
  EXPECT_EQ(distinct(build({.cp = 4, .zero = 1}), "layers.0.up.exp_avg"), 4u);
  EXPECT_EQ(distinct(build({.cp = 4, .zero = 1}), "layers.0.up"), 1u);
  EXPECT_EQ(distinct(build({.dp = 2, .cp = 2, .zero = 3}), "layers.0.up"), 4u);
}

TEST(Megatron, APreviousVersionLiesWhereItsParameterDoes) {
  for (const ParallelConfig& config :
       {ParallelConfig{.tp = 2, .pp = 2, .dp = 2}, ParallelConfig{.tp = 2, .dp = 2, .ep = 2, .zero = 1},
        ParallelConfig{.dp = 4, .zero = 3}}) {
    const model::Recipe recipe = {.param = tensor::DType::kBF16, .previous = true};
    const int experts = config.ep > 1 ? 4 : 0;
    const auto built = megatron_collection(small_model(experts), recipe, config, devices(config.world()));
    ASSERT_TRUE(built.ok()) << message_of(built.status());
    EXPECT_EQ(message_of(validate(*built)), "");
    int found = 0;
    for (const LogicalTensor& tensor : built->tensors) {
      if (tensor.kind != model::StateKind::kPrevious) continue;
      ++found;
      const std::string param = tensor.name.substr(0, tensor.name.size() - std::string(".previous").size());
      for (int rank = 0; rank < built->ranks(); ++rank) {
        EXPECT_EQ(built->pieces(find(*built, tensor.name), LogicalRank(rank)).pieces,
                  built->pieces(find(*built, param), LogicalRank(rank)).pieces)
            << tensor.name << " " << canonical(config);
      }
    }
    EXPECT_EQ(found, static_cast<int>(small_model(experts).params.size()));
  }
}

TEST(Megatron, ExpertsGoByGlobalId) {
  const Collection collection = build({.dp = 4, .ep = 2}, 4);
  EXPECT_THAT(holders(collection, "layers.0.expert1"), ElementsAre(0, 2));
  EXPECT_THAT(holders(collection, "layers.0.expert2"), ElementsAre(1, 3));
  EXPECT_THAT(holders(collection, "layers.0.up"), ElementsAre(0, 1, 2, 3));
}

TEST(Megatron, ExpertsInPipelineAndInsideTensorParallelism) {
  const Collection collection = build({.tp = 2, .pp = 2, .dp = 2, .ep = 2, .etp = 2, .zero = 1}, 4);
  EXPECT_THAT(holders(collection, "layers.3.expert3"), ElementsAre(6, 7));
  EXPECT_EQ(box_of(collection, "layers.3.expert3", 6), Box({0, 0}, {8, 8}));
  EXPECT_EQ(box_of(collection, "layers.3.expert3", 7), Box({8, 0}, {16, 8}));
}

TEST(Megatron, JobStateIsOncePerDataParallelReplica) {
  const Collection collection = build({.tp = 2, .pp = 2, .dp = 2, .cp = 2});  // tp fastest, then cp, dp, pp
  for (const std::string name : {"rng.host", "rng.device", "step", "data.cursor"}) {
    EXPECT_THAT(holders(collection, name), ElementsAre(0, 4)) << name;
  }
}

TEST(Megatron, EveryConfigurationOfThisListIsValid) {
  for (const int tp : {1, 2, 4}) {
    for (const int pp : {1, 2, 3, 4}) {
      for (const int dp : {1, 2, 3}) {
        for (const int zero : {0, 1, 3}) {
          build({.tp = tp, .pp = pp, .dp = dp, .zero = zero});
          if (pp == 3) build({.tp = tp, .pp = pp, .dp = dp, .vpp = 2, .zero = zero});  // ends with stages of their own
        }
      }
    }
  }
}

TEST(CheckFit, NamesEveryProblem) {
  const std::string text = message_of(check_fit(small_model(), {.tp = 3, .pp = 5, .dp = 2, .ep = 2}));
  EXPECT_THAT(text, AllOf(HasSubstr("tp3 does not divide the 4 attention heads of small"),
                          HasSubstr("5 pipeline stages are more than the 4 layers"), HasSubstr("ep2 needs experts")));
  EXPECT_THAT(message_of(check_fit(small_model(4), {.dp = 3, .ep = 3})),
              HasSubstr("ep3 does not divide the 4 experts"));
  EXPECT_THAT(message_of(check_fit(small_model(), {.pp = 2, .stages = {2, 1}})), HasSubstr("stages sum to 3 layers"));
  EXPECT_THAT(message_of(check_fit(small_model(4), {.tp = 2, .pp = 2, .order = {"tp", "pp", "cp", "dp"}})),
              HasSubstr("pp first or last"));
}

// Fused QKV of 4 heads in 2 groups: 4·2 + 2·2·2 = 16 rows of head size 2.
TEST(CheckFit, TensorParallelismInsideAQueryGroup) {
  const auto with = [](int tp, int kv_heads, int64_t rows) {
    model::Model model = small_model();
    model.kv_heads = kv_heads;
    model.heads = 12;
    model.ffn = 48;
    for (Param& param : model.params) {
      if (param.rule == TpRule::kColumn) param.shape = {48, 8};
      if (param.rule == TpRule::kRow) param.shape = {8, 48};
    }
    model.params.push_back({.name = "layers.0.qkv", .shape = {rows, 8}, .rule = TpRule::kColumn, .layer = 0});
    return message_of(check_fit(model, {.tp = tp}));
  };
  EXPECT_EQ(with(2, 2, 16), "") << "one group a rank";
  EXPECT_EQ(with(4, 2, 16), "") << "half a group a rank";
  EXPECT_THAT(with(3, 2, 48), HasSubstr("tp3 is not a multiple of the 2 key-value heads"));
  EXPECT_THAT(with(2, 0, 48), HasSubstr("small has 12 attention heads and no key-value heads"));
  EXPECT_THAT(with(2, 3, 48), HasSubstr("tp2 does not divide the 3 key-value heads"));
  EXPECT_THAT(with(4, 2, 18), HasSubstr("tp4 does not divide layers.0.qkv [18, 8] of small: 18 does not divide by 4"));
}

TEST(Megatron, RefusesTheWrongNumberOfDevices) {
  const auto built = megatron_collection(small_model(), {}, {.tp = 2}, devices(3));
  EXPECT_THAT(message_of(built.status()), HasSubstr("tp2 needs 2 devices, 3 are given"));
}

}  // namespace
}  // namespace scalai::collection
