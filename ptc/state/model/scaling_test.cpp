#include "ptc/state/model/scaling.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/state/model/catalogue.h"
#include "ptc/store/naming/family.h"

namespace scalai::model {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr Fraction kHalf = {1, 2}, kEighth = {1, 8}, kSixtyFourth = {1, 64};

// Everything but the sizes that shrink.
void expect_same_structure(const Model& part, const Model& whole) {
  const auto kept = [](const Model& m) {
    return std::tie(m.name, m.family, m.source, m.layers, m.heads, m.kv_heads, m.sequence, m.experts,
                    m.experts_per_token, m.tied);
  };
  EXPECT_EQ(kept(part), kept(whole));
  ASSERT_EQ(part.params.size(), whole.params.size());
  for (size_t i = 0; i < part.params.size(); ++i) {
    const Param& a = part.params[i];
    const Param& b = whole.params[i];
    EXPECT_EQ(std::tie(a.name, a.rule, a.layer, a.expert, a.buffer),
              std::tie(b.name, b.rule, b.layer, b.expert, b.buffer));
    ASSERT_EQ(a.shape.rank(), b.shape.rank()) << a.name;
    for (int dim = 0; dim < a.shape.rank(); ++dim) {
      EXPECT_GE(a.shape[dim], 1) << a.name;
      EXPECT_LE(a.shape[dim], b.shape[dim]) << a.name;
    }
  }
}

// Whether tp cuts every tensor evenly, as Megatron's rules ask for.
bool cuts_evenly(const Model& model, int tp) {
  if (model.heads == 0) return tp == 1;
  const bool groups = model.kv_heads >= tp ? model.kv_heads % tp == 0 : tp % model.kv_heads == 0;
  if (!groups || model.heads % tp != 0 || model.hidden % tp != 0 || model.ffn % tp != 0) return false;
  return std::all_of(model.params.begin(), model.params.end(), [&](const Param& param) {
    const int dim = param.rule == TpRule::kColumn ? 0 : param.rule == TpRule::kRow ? 1 : -1;
    return dim < 0 || param.expert >= 0 || param.shape[dim] % tp == 0;
  });
}

std::vector<int> fitting(const Model& model) {
  std::vector<int> sizes;
  for (int tp = 1; tp <= std::max(model.heads, 1); ++tp) {
    if (cuts_evenly(model, tp)) sizes.push_back(tp);
  }
  return sizes;
}

class ScaledCatalogueTest : public ::testing::TestWithParam<std::tuple<std::string, Fraction>> {
 protected:
  const Fraction fraction_ = std::get<1>(GetParam());
  const Model whole_ = find_model(std::get<0>(GetParam())).value();
  const Model part_ = scaled(whole_, fraction_);
};

INSTANTIATE_TEST_SUITE_P(All, ScaledCatalogueTest,
                         ::testing::Combine(::testing::ValuesIn(catalogue_names()),
                                            ::testing::Values(kHalf, kEighth, kSixtyFourth)));

TEST_P(ScaledCatalogueTest, KeepsTheStructure) { expect_same_structure(part_, whole_); }

TEST_P(ScaledCatalogueTest, CanBeCutAsBefore) {
  for (const int tp : fitting(whole_)) {
    EXPECT_TRUE(tp > whole_.kv_heads || cuts_evenly(part_, tp)) << "tp " << tp;
    EXPECT_TRUE(cuts_evenly(scaled(whole_, fraction_, {.tp = {tp}}), tp)) << "tp " << tp;
  }
}

// A matrix counts fraction squared, a vector fraction; sizes are rounded to a head size of at least one.
TEST_P(ScaledCatalogueTest, ShrinksByAboutTheSquare) {
  const double share = static_cast<double>(part_.parameter_count()) / static_cast<double>(whole_.parameter_count());
  const double part = static_cast<double>(fraction_.numerator) / static_cast<double>(fraction_.denominator);
  EXPECT_GT(share, 0.6 * part * part);
  EXPECT_LT(share, 2.5 * part * part);
  EXPECT_EQ(part_.published_params, 0);
}

// The tensors follow from the sizes that the model states, as in the catalogue.
TEST_P(ScaledCatalogueTest, StatesTheSizesOfItsTensors) {
  for (const Param& param : part_.params) {
    if (param.rule == TpRule::kVocab) {
      EXPECT_EQ(param.shape, (tensor::Shape{part_.vocab, part_.hidden}));
    } else if (param.name.ends_with("down.weight")) {
      EXPECT_EQ(param.shape, (tensor::Shape{part_.hidden, part_.ffn}));
    } else if (param.name.ends_with("final_norm.weight")) {
      EXPECT_EQ(param.shape, (tensor::Shape{part_.hidden}));
    } else if (param.name == "fc.weight") {
      EXPECT_EQ(param.shape[1], part_.hidden);
    } else if (param.name.ends_with("attention.qkv.weight")) {
      const int64_t head_size = part_.hidden / part_.heads;
      EXPECT_EQ(param.shape, (tensor::Shape{(part_.heads + 2 * part_.kv_heads) * head_size, part_.hidden}));
    }
  }
}

TEST_P(ScaledCatalogueTest, ByOneChangesNothing) {
  const Model same = scaled(whole_, {}, {.tp = {8}, .etp = {7}});
  expect_same_structure(same, whole_);
  for (size_t i = 0; i < same.params.size(); ++i) EXPECT_EQ(same.params[i].shape, whole_.params[i].shape);
  EXPECT_EQ(same.published_params, whole_.published_params);
}

TEST(ScaledTest, SizesOfLlama3) {
  const Model part = scaled(find_model("llama3-70b").value(), kEighth);
  EXPECT_EQ(part.hidden, 1024);
  EXPECT_EQ(part.ffn, 3584);
  EXPECT_EQ(part.vocab, 16032);
  // 86 channels a head: 10.75 are rounded to 11.
  EXPECT_EQ(scaled(find_model("tenplex-gpt-1.3b").value(), kEighth).hidden, 24 * 11);
}

// Eight queries, a key and a value a group, in 8 parts of 160 rows; heads of 2 would leave 2.5.
TEST(ScaledTest, HeadsKeepCutsInsideAGroup) {
  const Model whole = find_model("llama3-70b").value();
  EXPECT_EQ(scaled(whole, kSixtyFourth, {.tp = {8}}).hidden, 64 * 2);
  EXPECT_EQ(scaled(whole, kSixtyFourth, {.tp = {64}}).hidden, 64 * 8);
  EXPECT_TRUE(cuts_evenly(scaled(whole, kSixtyFourth, {.tp = {64}}), 64));
  EXPECT_FALSE(cuts_evenly(scaled(whole, kSixtyFourth), 64));
}

TEST(ScaledTest, ResnetKeepsImagesAndKernels) {
  const Model part = scaled(find_model("resnet-50").value(), kEighth);
  EXPECT_EQ(part.params.front().shape, (tensor::Shape{8, 3, 7, 7}));
  EXPECT_EQ(part.params.back().shape, (tensor::Shape{125}));
  EXPECT_EQ(part.hidden, 256);
}

TEST(ScaledTest, FeedForwardKeepsTheMultipleThatIsAskedFor) {
  const Model whole = find_model("mixtral-8x7b").value();
  EXPECT_EQ(scaled(whole, kSixtyFourth).ffn, 224);
  EXPECT_EQ(scaled(whole, kSixtyFourth, {.etp = {256, 2}}).ffn, 256);
  EXPECT_EQ(scaled(whole, kSixtyFourth, {.etp = {11}}).ffn, 224) << "11 does not divide 14336 either";
}

std::string config_text(Random& random) {
  const int64_t groups = random.between(1, 6);
  const int64_t heads = groups * random.between(1, 5);
  const bool own_head_size = random.below(2) == 0;
  const int64_t hidden = own_head_size ? random.between(1, 400) : heads * random.between(1, 40);
  const std::string head_size = own_head_size ? fmt::format("\"head_dim\": {},", random.between(1, 40)) : "";
  return fmt::format(
      R"({{"architectures": ["{}"], "hidden_size": {}, "intermediate_size": {}, {} "num_attention_heads": {},
          "num_key_value_heads": {}, "num_hidden_layers": {}, "max_position_embeddings": 64, "vocab_size": {},
          "attention_bias": {}, "mlp_bias": {}, "num_local_experts": 4, "num_experts_per_tok": 2}})",
      random.below(2) == 0 ? "LlamaForCausalLM" : "MixtralForCausalLM", hidden, random.between(1, 900), head_size,
      heads, groups, random.between(1, 3), random.between(1, 2000), random.below(2) == 0, random.below(2) == 0);
}

TEST(ScaledTest, AnyConfigKeepsItsStructureAndItsCuts) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const std::string text = config_text(random);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, text));
    const absl::StatusOr<Model> whole = store::model_of_config(text, "any");
    ASSERT_TRUE(whole.ok()) << message_of(whole.status());
    const std::vector<int> sizes = fitting(*whole);
    const Model part = scaled(*whole, {random.between(1, 99), 100}, {.tp = sizes});
    expect_same_structure(part, *whole);
    EXPECT_THAT(fitting(part), IsSupersetOf(sizes));
    EXPECT_EQ(part.params[2].name, "layers.0.attention.qkv.weight");
    EXPECT_EQ(part.params[2].shape[0] % (part.heads + 2 * part.kv_heads), 0);
  }
}

TEST(FractionTest, ReadsFractionsAndDecimals) {
  EXPECT_EQ(parse_fraction("1/8").value(), kEighth);
  EXPECT_EQ(parse_fraction("0.125").value(), kEighth);
  EXPECT_EQ(parse_fraction("2/16").value(), kEighth);
  EXPECT_EQ(parse_fraction("0.3").value(), (Fraction{3, 10}));
  EXPECT_EQ(parse_fraction("1").value(), Fraction{});
  EXPECT_EQ(parse_fraction("1.000").value(), Fraction{});
  EXPECT_EQ(parse_fraction("0.000001").value(), (Fraction{1, 1'000'000}));
  for (const Fraction& fraction : {kHalf, kEighth, Fraction{}, Fraction{3, 10}}) {
    EXPECT_EQ(parse_fraction(fraction.str()).value(), fraction) << fraction.str();
  }
}

TEST(FractionTest, RefusesWhatIsNoPart) {
  for (const std::string text : {"",
                                 "/",
                                 "1/",
                                 "/8",
                                 "0",
                                 "0.0",
                                 "0/8",
                                 "1/0",
                                 "2",
                                 "9/8",
                                 "1.1",
                                 "-1/8",
                                 "1/-8",
                                 "+1/8",
                                 " 1/8",
                                 "1/8 ",
                                 "1/8/2",
                                 "1e-1",
                                 ".5",
                                 "1.",
                                 "0.0000001",
                                 "1/1000001",
                                 "99999999999999999999/1",
                                 "nan",
                                 "1/8x",
                                 "0.-5",
                                 "0x1/2"}) {
    const auto fraction = parse_fraction(text);
    ASSERT_FALSE(fraction.ok()) << text;
    EXPECT_THAT(message_of(fraction.status()), HasSubstr("\"" + text + "\" is not a part of the whole"));
  }
}

}  // namespace
}  // namespace scalai::model
