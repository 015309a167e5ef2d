#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/file.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/naming/family.h"
#include "ptc/store/naming/testing/family.h"

namespace scalai::store {
namespace {

using testing::HasSubstr;

TEST(FamilyFile, ReadsASmallFamily) {
  const auto family = Family::parse(small_family(""), "f.textproto");
  ASSERT_TRUE(family.ok()) << message_of(family.status());
  EXPECT_EQ(family->name(), "small");
  EXPECT_EQ(family->text(), small_family(""));
  const auto model =
      family->build_model({.numbers = {{"layers", 2}, {"width", 8}}, .switches = {{"biased", true}}}, "m");
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  std::string names;
  for (const model::Param& param : model->params) names += param.name + param.shape.str() + " ";
  EXPECT_EQ(names, "in[8, 8] layers.0.w[16, 8] layers.0.b[16] layers.1.w[16, 8] layers.1.b[16] out[8] ");
}

TEST(FamilyFile, PointsAtUnknownSizes) {
  EXPECT_EQ(family_problem(replaced("2*width", "2*widht")),
            "f.textproto:9:47: error: unknown size \"widht\"\n"
            "    9 | tensors { name: \"layers.{layer}.w\" shape: [\"2*widht\", \"width\"] rule: COLUMN }\n"
            "      |                                               ^~~~~\n"
            "hint: did you mean \"width\"?\n1 error\n");
}

TEST(FamilyFile, NamesAllProblemsAtOnce) {
  const std::string text = family_problem(
      R"(schema_version: 2 name: "x" architectures: ["A", "A"]
sizes { name: "layers" keys: "n" field: "layer" }
sizes { name: "layers" keys: "n" }
sizes { name: "a-b" keys: "n" }
sizes { name: "none" }
sizes { name: "big" keys: "n" max: 9223372036854775807 shape { tensor: "t" dim: -1 } }
switches { name: "s" keys: "s" architectures: "B" field: "bound" }
tensors { name: "layers.{layer}.w" shape: "layers" home: FIRST when: "!z" }
tensors { name: "w" shape: "layers" rule: ROW home: LAST }
tensors { name: "e.{expert}" shape: "layers" home: LAST }
tensors { name: "l.{stage_layer}" shape: "layers" home: LAST }
tensors { name: "l.{ layer" shape: "layers" home: LAST query_groups { groups: "2" queries: "1" } }
tensors { name: "x.{layer}" shape: ["1", "1", "1", "1", "1", "1"] }
)");
  for (const char* expected : {
           ":1:17: error: schema version 2 is not known here",
           ":1:50: error: architecture \"A\" is given twice",
           ":2:41: error: unknown field \"layer\"\n",
           "hint: did you mean \"layers\"?",
           ":3:15: error: \"layers\" is described twice",
           "\"a-b\" has other characters",
           "a size has \"keys\", or \"otherwise\", or both",
           "error: more than 1099511627776",
           "unknown logical tensor \"t\"",
           "\"dim\" must be at least 0, found -1",
           "unknown architecture \"B\"",
           "unknown field \"bound\"",
           "a tensor with {layer} lives in its layer",
           "unknown switch \"z\"",
           "the rule cuts dimension 1, which is not there",
           "experts are in a layer",
           "no size says how many experts there are",
           "a logical tensor is global: use {layer} and {expert}",
           "a \"{\" without a \"}\" after it",
           "\"head_dim\" is missing",
           "more than 5 dimensions",
       })
    EXPECT_THAT(text, HasSubstr(expected));
}

TEST(FamilyFile, SizesThatAreDividedByEachOtherComeTogether) {
  const auto with = [](const std::string& fields) {
    return family_problem(replaced("sizes { name: \"width\" keys: \"w\" }", fields));
  };
  const std::string all =
      "sizes { name: \"width\" keys: \"w\" field: \"hidden\" }\n"
      "sizes { name: \"heads\" keys: \"h\" field: \"heads\" }\n";
  EXPECT_THAT(with(all),
              HasSubstr("f.textproto:6:40: error: no size has the field \"kv_heads\", which comes with \"heads\""));
  EXPECT_EQ(with(all + "sizes { name: \"groups\" keys: \"g\" field: \"kv_heads\" }"), "");
  EXPECT_THAT(with("sizes { name: \"width\" keys: \"w\" field: \"experts\" }"),
              HasSubstr("no size has the field \"experts_per_token\""));
  EXPECT_THAT(with("sizes { name: \"width\" keys: \"w\" field: \"layers\" }"),
              HasSubstr("two sizes have the field \"layers\""));
}

// 2^32 heads would be none.
TEST(FamilyFile, ASizeIsNotMoreThanItsFieldHolds) {
  const std::string text =
      replaced("sizes { name: \"width\" keys: \"w\" }",
               "sizes { name: \"width\" keys: \"w\" max: 1099511627776 field: \"sequence\" }\n"
               "sizes { name: \"hidden\" keys: \"d\" field: \"hidden\" }\n"
               "sizes { name: \"heads\" keys: \"h\" max: 1099511627776 field: \"heads\" }\n"
               "sizes { name: \"kv_heads\" otherwise: \"heads\" max: 1099511627776 field: \"kv_heads\" }");
  const auto family = Family::parse(text, "f.textproto");
  ASSERT_TRUE(family.ok()) << message_of(family.status());
  const auto model = family->build_model(
      {.numbers =
           {{"layers", 2}, {"width", 8}, {"hidden", 8}, {"heads", int64_t{1} << 32}, {"kv_heads", int64_t{1} << 32}},
       .switches = {{"biased", true}}},
      "m");
  EXPECT_THAT(message_of(model.status()), HasSubstr("size \"heads\": 4294967296 is more than field \"heads\" holds"));
}

TEST(FamilyFile, NeedsTensors) {
  EXPECT_THAT(family_problem("schema_version: 1 name: \"x\""), HasSubstr("\"tensors\" is missing"));
  EXPECT_THAT(family_problem(""), HasSubstr("the file is empty"));
  EXPECT_THAT(family_problem("name: 3"), HasSubstr("f.textproto:1:7: error"));
}

// Whatever is left of a file, it is read or refused, and what is read can be used.
TEST(FamilyFile, SurvivesDamage) {
  const Families families = Families::built_in();
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string text = families.find(families.names()[seed % 3])->text();
    const size_t at = random.below(text.size());
    const size_t length = 1 + random.below(seed % 2 == 0 ? 3 : 300);
    if (seed % 4 < 2) {
      text.erase(at, length);
    } else {
      text.insert(at, text.substr(random.below(text.size()), length));
    }
    const auto family = Family::parse(text, "damaged.textproto");
    if (!family.ok()) {
      EXPECT_NE(message_of(family.status()), "");
      continue;
    }
    Sizes sizes;
    for (const char* name : {"layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "sequence"})
      sizes.numbers[name] = 4;
    const auto model = family->build_model(sizes, "m");
    EXPECT_TRUE(model.ok() || !message_of(model.status()).empty());
  }
}

// The README's examples are whole files.
TEST(FamilyFile, ReadsTheExamplesOfTheReadme) {
  const auto readme = read_file(std::string(SCALAI_SOURCE_DIR) + "/docs/howto/checkpoints.md");
  ASSERT_TRUE(readme.ok());
  const std::string fence = "```textproto\nschema_version";
  int examples = 0;
  for (size_t at = readme->find(fence); at != std::string::npos; at = readme->find(fence, at + 1), ++examples) {
    const size_t begin = readme->find('\n', at) + 1;
    EXPECT_EQ(family_problem(readme->substr(begin, readme->find("```", begin) - begin)), "");
  }
  EXPECT_GE(examples, 1);
}

TEST(FamilyFile, RefusesNamesThatBecomeOne) {
  std::string text = replaced("name: \"in\"", "name: \"layers.1.w\"");
  text.replace(text.find("tensor: \"in\""), 12, "tensor: \"layers.1.w\"");
  const auto family = Family::parse(text, "f.textproto");
  ASSERT_TRUE(family.ok()) << message_of(family.status());
  const auto build = [&](int64_t layers) {
    const Sizes sizes{.numbers = {{"layers", layers}, {"width", 2}}, .switches = {{"biased", false}}};
    return message_of(family->build_model(sizes, "m").status());
  };
  EXPECT_EQ(build(1), "");
  EXPECT_EQ(build(2), "family \"small\" describes tensor \"layers.1.w\" twice");
}

TEST(FamilyFile, RefusesANameTwiceInOneSetting) {
  EXPECT_THAT(family_problem(replaced("tensors { name: \"out\"",
                                      "tensors { name: \"in\" shape: \"width\" home: FIRST when: "
                                      "\"biased\" }\ntensors { name: \"out\"")),
              HasSubstr(":11:17: error: with biased: \"in\" is described twice"));
}

}  // namespace
}  // namespace scalai::store
