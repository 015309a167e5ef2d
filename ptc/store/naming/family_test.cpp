#include "ptc/store/naming/family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/state/model/catalogue.h"
#include "ptc/store/naming/internal/model_fields.h"
#include "ptc/store/naming/testing/arrange.h"

namespace scalai::store {

using testing::HasSubstr;

void expect_same_params(const model::Model& actual, const model::Model& expected) {
  ASSERT_EQ(actual.params.size(), expected.params.size()) << expected.name;
  for (size_t i = 0; i < actual.params.size(); ++i) {
    const model::Param& a = actual.params[i];
    const model::Param& b = expected.params[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.shape, b.shape) << b.name;
    EXPECT_EQ(a.rule, b.rule) << b.name;
    EXPECT_EQ(a.layer, b.layer) << b.name;
    EXPECT_EQ(a.expert, b.expert) << b.name;
    EXPECT_EQ(a.buffer, b.buffer) << b.name;
  }
}

void expect_same_model(const model::Model& actual, const model::Model& expected) {
  expect_same_params(actual, expected);
  EXPECT_EQ(actual.family, expected.family);
  EXPECT_EQ(actual.tied, expected.tied);
  for (const std::string& field : internal::number_fields())
    EXPECT_EQ(internal::number_of(actual, field), internal::number_of(expected, field)) << field;
}

TEST(Family, BuildsEveryCatalogueModelOfItsKind) {
  const Families families = Families::built_in();
  const std::vector<std::string> known = families.names();
  int compared = 0;
  for (const std::string& name : model::catalogue_names()) {
    SCOPED_TRACE(name);
    const auto expected = model::find_model(name);
    ASSERT_TRUE(expected.ok());
    if (std::find(known.begin(), known.end(), expected->family) == known.end()) continue;
    const auto family = families.of_model(*expected);
    ASSERT_TRUE(family.ok()) << message_of(family.status());
    const auto sizes = family->sizes_of_model(*expected);
    ASSERT_TRUE(sizes.ok()) << message_of(sizes.status());
    const auto model = family->build_model(*sizes, name);
    ASSERT_TRUE(model.ok()) << message_of(model.status());
    EXPECT_EQ(model->name, name);
    expect_same_model(*model, *expected);
    ++compared;
  }
  EXPECT_GE(compared, 20);
}

TEST(Family, RefusesModelsOfOthers) {
  const auto bert = model::find_model("bert-base");
  const auto llama = model::find_model("llama3-8b");
  ASSERT_TRUE(bert.ok() && llama.ok());
  model::Model strange = *bert;
  strange.family = "berth";
  EXPECT_THAT(message_of(Families::built_in().of_model(strange).status()), HasSubstr("unknown family \"berth\""));
  EXPECT_THAT(message_of(family_named("gpt").sizes_of_model(*bert).status()),
              HasSubstr("family \"gpt\" does not describe model \"bert-base\": tensor 2 is"));
  model::Model changed = *llama;
  changed.params[5].shape = {4096, 1};
  EXPECT_THAT(message_of(family_named("llama").sizes_of_model(changed).status()),
              HasSubstr("tensor 5 is \"layers.0.mlp.gate.weight\" [14336, 4096] in the family, "
                        "\"layers.0.mlp.gate.weight\" [4096, 1] in the model"));
  changed = *llama;
  changed.params.pop_back();
  EXPECT_THAT(message_of(family_named("llama").sizes_of_model(changed).status()), HasSubstr("nothing in the model"));
}

TEST(Family, ChecksSizes) {
  const Family llama = family_named("llama");
  Sizes sizes = sizes_of({});
  sizes.numbers.erase("ffn");
  sizes.numbers["depth"] = 3;
  sizes.switches["tide"] = true;
  EXPECT_EQ(message_of(llama.build_model(sizes, "").status()),
            "size \"ffn\" is missing\nfamily \"llama\" has no size \"depth\"\n"
            "family \"llama\" has no switch \"tide\"");
  sizes = sizes_of({});
  sizes.numbers["layers"] = 0;
  sizes.numbers["hidden"] = 65537;
  EXPECT_EQ(message_of(llama.build_model(sizes, "").status()),
            "size \"layers\": 0 is not a whole number from 1 to 4096\n"
            "size \"hidden\": 65537 is not a whole number from 1 to 65536");
  sizes = sizes_of({});
  sizes.numbers["kv_heads"] = 3;
  EXPECT_EQ(message_of(llama.build_model(sizes, "").status()), "\"heads / kv_heads\": 4 is not a multiple of 3");
  Tiny many{.family = "mixtral", .layers = 4096, .experts = 4096};
  EXPECT_THAT(message_of(family_named("mixtral").build_model(sizes_of(many), "").status()),
              HasSubstr("are more than 1048576 tensors"));
}

TEST(Family, HasNamingsAndArchitectures) {
  const Family llama = family_named("llama");
  EXPECT_THAT(llama.namings(), testing::ElementsAre("hf", "megatron", "vllm"));
  EXPECT_THAT(llama.architectures(),
              testing::IsSupersetOf({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"}));
}

}  // namespace scalai::store
