#include "ptc/state/model/model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "ptc/base/status.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::model {
namespace {

using tensor::DType;
using tensor::Shape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kJobWideBytes = 5056 + 16 + 8 + 16;

Model model_named(std::string_view name) {
  absl::StatusOr<Model> model = find_model(name);
  SCALAI_CHECK(model.ok(), message_of(model.status()));
  return *std::move(model);
}

const Param* find_param(const Model& model, std::string_view name) {
  const auto found =
      std::find_if(model.params.begin(), model.params.end(), [&](const Param& param) { return param.name == name; });
  return found == model.params.end() ? nullptr : &*found;
}

Param param_named(const Model& model, std::string_view name) {
  const Param* param = find_param(model, name);
  SCALAI_CHECK(param != nullptr, std::string(name));
  return *param;
}

class CatalogueTest : public ::testing::TestWithParam<std::string> {
 protected:
  Model model_ = model_named(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, CatalogueTest, ::testing::ValuesIn(catalogue_names()), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
});

TEST_P(CatalogueTest, HasThePublishedNumberOfParameters) {
  if (model_.published_params == 0) {
    EXPECT_THAT(model_.name, ::testing::StartsWith("tenplex-"));  // only Tenplex gives mere labels
    return;
  }
  const int64_t unit = model_.params_rounding;
  EXPECT_EQ((model_.parameter_count() + unit / 2) / unit * unit, model_.published_params) << model_.parameter_count();
}

TEST_P(CatalogueTest, NamesItsSource) {
  EXPECT_EQ(model_.name, GetParam());
  EXPECT_FALSE(model_.source.empty());
  EXPECT_FALSE(model_.family.empty());
}

TEST_P(CatalogueTest, GivesEveryTensorItsOwnName) {
  std::set<std::string> names;
  for (const Param& param : model_.params) EXPECT_TRUE(names.insert(param.name).second) << param.name;
}

TEST_P(CatalogueTest, ListsTensorsInForwardOrderWithoutAGap) {
  std::vector<int> layers;  // each run of equal layers once, the last end as model_.layers
  for (const Param& param : model_.params) {
    ASSERT_LT(param.layer, model_.layers) << param.name;
    const bool first = param.layer == Param::kFirst || param.layer == Param::kBothEnds;
    const int at = first ? -1 : param.layer == Param::kLast ? model_.layers : param.layer;
    if (layers.empty() || layers.back() != at) layers.push_back(at);
  }
  ASSERT_EQ(layers.size(), static_cast<size_t>(model_.layers) + 2);
  EXPECT_TRUE(std::is_sorted(layers.begin(), layers.end()));
}

TEST_P(CatalogueTest, PutsTheLayerIntoTheName) {
  for (const Param& param : model_.params) {
    const std::string prefix = "layers." + std::to_string(param.layer) + ".";
    EXPECT_EQ(param.name.starts_with(prefix), param.layer >= 0) << param.name;
    const std::string expert = ".experts." + std::to_string(param.expert) + ".";
    EXPECT_EQ(param.name.find(expert) != std::string::npos, param.expert >= 0) << param.name;
  }
}

TEST_P(CatalogueTest, CutsOnlyDimensionsThatExistAndDivide) {
  constexpr int64_t kTp = 8;
  for (const Param& param : model_.params) {
    if (param.rule == TpRule::kRow) {
      ASSERT_EQ(param.shape.rank(), 2) << param.name;
      EXPECT_EQ(param.shape[1] % kTp, 0) << param.name;
    } else if (param.rule == TpRule::kColumn) {
      ASSERT_GE(param.shape.rank(), 1) << param.name;
      EXPECT_EQ(param.shape[0] % kTp, 0) << param.name;
    } else if (param.rule == TpRule::kVocab) {
      EXPECT_EQ(param.shape, Shape({model_.vocab, model_.hidden}));
    }
  }
}

TEST_P(CatalogueTest, HasTheTiedEmbeddingAtBothEnds) {
  const auto both = std::count_if(model_.params.begin(), model_.params.end(),
                                  [](const Param& param) { return param.layer == Param::kBothEnds; });
  EXPECT_EQ(both, model_.tied ? 1 : 0);
  if (model_.heads > 0) {
    EXPECT_EQ(find_param(model_, "head.weight") == nullptr, model_.tied);
  }
}

TEST_P(CatalogueTest, CutsFusedQueriesKeysAndValuesByGroup) {
  if (model_.family == "resnet") {
    EXPECT_EQ(find_param(model_, "layers.0.attention.qkv.weight"), nullptr);
    return;
  }
  const Param qkv = param_named(model_, "layers.0.attention.qkv.weight");
  const int64_t head_dim = model_.hidden / model_.heads;
  EXPECT_EQ(qkv.rule, TpRule::kColumn);
  EXPECT_EQ(qkv.shape, Shape({model_.kv_heads * (model_.heads / model_.kv_heads + 2) * head_dim, model_.hidden}));
}

TEST_P(CatalogueTest, TakesFourteenBytesPerParameterInMixedPrecision) {
  int64_t buffer_bytes = 0;
  for (const Param& param : model_.params) {
    if (param.buffer) buffer_bytes += param.shape.elements() * (param.shape.rank() == 0 ? 8 : 4);
  }
  EXPECT_EQ(state_bytes(model_, {}, false), 14 * model_.parameter_count() + buffer_bytes + kJobWideBytes);
}

TEST_P(CatalogueTest, HasJobWideStateExactlyOnce) {
  std::map<std::string, int> seen;
  for (const StateTensor& state : state_tensors(model_, {})) {
    if (state.param < 0) ++seen[state.name];
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"rng.host", 1}, {"rng.device", 1}, {"step", 1}, {"data.cursor", 1}}));
}

// Closed forms, written without the tensor lists. GPT: 12 h^2 + 13 h a layer, one final norm, two embedding tables.
TEST(ParameterCountTest, OfGptFollowsTheClosedForm) {
  for (const std::string& name : catalogue_names()) {
    const Model model = model_named(name);
    if (model.family != "gpt") continue;
    const int64_t h = model.hidden;
    EXPECT_EQ(model.parameter_count(),
              model.layers * (12 * h * h + 13 * h) + (model.vocab + model.sequence) * h + 2 * h)
        << name;
  }
}

TEST(ParameterCountTest, CountsOnlyTheExpertsThatATokenUses) {
  EXPECT_EQ(model_named("mixtral-8x7b").active_parameter_count(), 12'879'925'248);       // published as 12.9 B
  EXPECT_EQ(model_named("mixtral-8x22b").active_parameter_count() / 1'000'000'000, 39);  // published as 39 B
  const Model dense = model_named("llama2-7b");
  EXPECT_EQ(dense.active_parameter_count(), dense.parameter_count());
}

// The published state sizes count the tied embedding once per home and a padded vocabulary; ours is unpadded.
TEST(StateBytesTest, MatchTenplexWithinOnePercent) {
  const std::map<std::string, double> published_gb = {
      {"tenplex-gpt-1.3b", 20.2}, {"tenplex-gpt-2.7b", 39.0}, {"tenplex-gpt-6.7b", 96.3}};
  for (const auto& [name, gb] : published_gb) {
    const double ours_gb = static_cast<double>(state_bytes(model_named(name), {}, true)) / 1e9;
    EXPECT_NEAR(ours_gb, gb, 0.01 * gb) << name;
  }
}

TEST(StateBytesTest, CountATiedEmbeddingOncePerHome) {
  const Model gpt = model_named("gpt2");
  EXPECT_EQ(state_bytes(gpt, {}, true) - state_bytes(gpt, {}, false), 14 * gpt.vocab * gpt.hidden);
  const Model llama = model_named("llama3-8b");
  EXPECT_EQ(state_bytes(llama, {}, true), state_bytes(llama, {}, false));
}

TEST(StateBytesTest, FollowTheRecipe) {
  const Model model = model_named("gpt2");
  const auto per_param = [&](const Recipe& recipe) {
    return (state_bytes(model, recipe, false) - kJobWideBytes) / model.parameter_count();
  };
  EXPECT_EQ(per_param({.param = DType::kBF16}), 14);
  EXPECT_EQ(per_param({.param = DType::kF32}), 12);  // the parameter is its own master
  EXPECT_EQ(per_param({.param = DType::kBF16, .master = false}), 10);
  EXPECT_EQ(per_param({.optimizer = Optimizer::kSgdMomentum}), 10);
  EXPECT_EQ(per_param({.param = DType::kF32, .master = false, .optimizer = Optimizer::kSgdMomentum}), 8);
  EXPECT_EQ(per_param({.param = DType::kBF16, .previous = true}), 16);  // PipeDream-2BW's second version
  EXPECT_EQ(per_param({.param = DType::kF32, .previous = true}), 16);
}

std::vector<std::string> names_of(const std::vector<StateTensor>& states, int param) {
  std::vector<std::string> names;
  for (const StateTensor& state : states) {
    if (state.param == param) names.push_back(state.name);
  }
  return names;
}

// Beside 2 bytes and a master of 4: two moments of 4, of 2, of 1; one of 4. Muon has one for matrices of layers alone:
// of a Llama all but both embeddings and the norms.
TEST(StateBytesTest, FollowTheOptimizer) {
  const Model model = find_model("llama3-8b").value();
  const auto bytes = [&](const char* name) {
    const Recipe recipe{.param = DType::kBF16, .optimizer = find_optimizer(name).value()};
    EXPECT_EQ(name_of(recipe.optimizer), name);
    return state_bytes(model, recipe, /*per_home=*/false);
  };
  const int64_t all = model.parameter_count();
  const int64_t adam = bytes("adam");
  EXPECT_EQ(adam - bytes("adam-bf16"), 4 * all);
  EXPECT_EQ(adam - bytes("adam-8bit"), 6 * all);
  EXPECT_EQ(adam - bytes("sgd"), 4 * all);
  const int64_t elsewhere = 2 * model.vocab * model.hidden + (2 * model.layers + 1) * model.hidden;
  EXPECT_EQ(adam - bytes("muon"), 4 * (all - elsewhere));
  EXPECT_EQ(optimizer_names().front(), "adam");
  EXPECT_THAT(std::string(find_optimizer("adamw").status().message()), ::testing::HasSubstr("adam, adam-bf16"));
}

TEST(StateTensorsTest, FollowEachParameterWithItsOptimizerState) {
  const Model model = model_named("gpt2");
  const std::vector<StateTensor> states = state_tensors(model, {});
  ASSERT_EQ(states.size(), 4 * model.params.size() + 4);
  EXPECT_THAT(names_of(states, 0), ElementsAre("embedding.word.weight", "embedding.word.weight.master",
                                               "embedding.word.weight.exp_avg", "embedding.word.weight.exp_avg_sq"));
  EXPECT_EQ(states[0].dtype, DType::kF16);
  EXPECT_EQ(states[1].dtype, DType::kF32);
  EXPECT_EQ(states[1].kind, StateKind::kMaster);
  EXPECT_EQ(states[1].shape, Shape({50257, 768}));
  for (size_t i = 0; i < 4 * model.params.size(); ++i) EXPECT_EQ(states[i].param, static_cast<int>(i / 4));
}

TEST(StateTensorsTest, APreviousVersionFollowsItsParameter) {
  const Model model = model_named("resnet-50");
  const std::vector<StateTensor> states = state_tensors(model, {.param = DType::kBF16, .previous = true});
  EXPECT_THAT(names_of(states, 0),
              ElementsAre("stem.conv.weight", "stem.conv.weight.previous", "stem.conv.weight.master",
                          "stem.conv.weight.exp_avg", "stem.conv.weight.exp_avg_sq"));
  EXPECT_EQ(states[1].kind, StateKind::kPrevious);
  EXPECT_EQ(states[1].dtype, DType::kBF16);
  EXPECT_EQ(states[1].shape, states[0].shape);
  // Statistics are not trained: there is one version of them.
  for (const StateTensor& state : states) {
    if (state.kind != StateKind::kBuffer) continue;
    EXPECT_THAT(names_of(states, state.param), ElementsAre(state.name));
  }
}

TEST(StateTensorsTest, EndWithRandomStateStepAndCursor) {
  const std::vector<StateTensor> states = state_tensors(model_named("gpt2"), {});
  const std::vector<StateTensor> last(states.end() - 4, states.end());
  EXPECT_THAT(names_of(last, -1), ElementsAre("rng.host", "rng.device", "step", "data.cursor"));
  EXPECT_EQ(last[0].shape, Shape({5056}));
  EXPECT_EQ(last[1].shape, Shape({16}));
  EXPECT_EQ(last[2].shape, Shape());
  EXPECT_EQ(last[3].shape, Shape({2}));
  EXPECT_EQ(last[0].kind, StateKind::kRng);
  EXPECT_EQ(last[2].kind, StateKind::kScalar);
  EXPECT_EQ(last[3].dtype, DType::kI64);
}

TEST(StateTensorsTest, KeepBuffersWithoutOptimizerState) {
  const Model model = model_named("resnet-50");
  const std::vector<StateTensor> states = state_tensors(model, {.optimizer = Optimizer::kSgdMomentum});
  std::map<std::string, StateTensor> by_name;
  for (const StateTensor& state : states) by_name[state.name] = state;
  EXPECT_EQ(by_name.at("stem.norm.running_mean").dtype, DType::kF32);
  EXPECT_EQ(by_name.at("stem.norm.num_batches_tracked").dtype, DType::kI64);
  EXPECT_EQ(by_name.at("stem.norm.num_batches_tracked").kind, StateKind::kBuffer);
  EXPECT_EQ(by_name.at("stem.norm.weight.momentum").kind, StateKind::kMomentum);
  EXPECT_EQ(by_name.count("stem.norm.running_mean.momentum"), 0U);
}

TEST(StateKindTest, HasAName) {
  EXPECT_EQ(name_of(StateKind::kParam), "param");
  EXPECT_EQ(name_of(StateKind::kExpAvgSq), "exp_avg_sq");
  EXPECT_EQ(name_of(StateKind::kMomentum), "momentum");
  EXPECT_EQ(name_of(StateKind::kScalar), "scalar");
  EXPECT_EQ(name_of(StateKind::kPrevious), "previous");
}

TEST(FamilyTest, GptFollowsMegatronsPartitionRules) {
  const Model model = model_named("gpt3-xl");
  const std::map<std::string, std::pair<Shape, TpRule>> expected = {
      {"embedding.word.weight", {{50257, 2048}, TpRule::kVocab}},
      {"embedding.position.weight", {{2048, 2048}, TpRule::kReplicated}},
      {"layers.23.attention_norm.bias", {{2048}, TpRule::kReplicated}},
      {"layers.23.attention.qkv.weight", {{6144, 2048}, TpRule::kColumn}},
      {"layers.23.attention.qkv.bias", {{6144}, TpRule::kColumn}},
      {"layers.23.attention.dense.weight", {{2048, 2048}, TpRule::kRow}},
      {"layers.23.attention.dense.bias", {{2048}, TpRule::kReplicated}},
      {"layers.23.mlp.up.weight", {{8192, 2048}, TpRule::kColumn}},
      {"layers.23.mlp.up.bias", {{8192}, TpRule::kColumn}},
      {"layers.23.mlp.down.weight", {{2048, 8192}, TpRule::kRow}},
      {"layers.23.mlp.down.bias", {{2048}, TpRule::kReplicated}},
      {"final_norm.weight", {{2048}, TpRule::kReplicated}}};
  for (const auto& [name, shape_and_rule] : expected) {
    const Param param = param_named(model, name);
    EXPECT_EQ(param.shape, shape_and_rule.first) << name;
    EXPECT_EQ(param.rule, shape_and_rule.second) << name;
  }
}

TEST(FamilyTest, MixtralHasExpertsWithGlobalIds) {
  const Model model = model_named("mixtral-8x7b");
  EXPECT_EQ(param_named(model, "layers.31.router.weight").shape, Shape({8, 4096}));
  const Param down = param_named(model, "layers.31.experts.7.down.weight");
  EXPECT_EQ(down.expert, 7);
  EXPECT_EQ(down.rule, TpRule::kRow);
  EXPECT_EQ(down.shape, Shape({4096, 14336}));
  EXPECT_EQ(find_param(model, "layers.0.mlp.up.weight"), nullptr);
}

TEST(FamilyTest, ResnetProjectsTheIdentityOncePerStage) {
  const Model model = model_named("resnet-50");
  std::vector<int> blocks;
  for (const Param& param : model.params) {
    if (param.name.ends_with("shortcut.conv.weight")) blocks.push_back(param.layer);
  }
  EXPECT_THAT(blocks, ElementsAre(0, 3, 7, 13));
  EXPECT_EQ(param_named(model, "layers.3.conv2.weight").shape, Shape({128, 128, 3, 3}));
  EXPECT_EQ(param_named(model, "fc.weight").layer, Param::kLast);
}

TEST(FindModelTest, SuggestsTheNearestName) {
  const absl::StatusOr<Model> typo = find_model("gpt3-2.7");
  ASSERT_FALSE(typo.ok());
  EXPECT_EQ(typo.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(typo.status()), HasSubstr("did you mean \"gpt3-2.7b\"?"));
  EXPECT_THAT(message_of(find_model("something else entirely").status()), HasSubstr("resnet-50"));
}

}  // namespace
}  // namespace scalai::model
