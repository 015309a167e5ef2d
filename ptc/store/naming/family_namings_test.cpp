#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/store/naming/family.h"
#include "ptc/store/naming/testing/family.h"

namespace scalai::store {
namespace family_namings_test {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kIn = "  tensors { name: \"i\" parts { tensor: \"in\" } }\n";
constexpr const char* kLayer =
    "  tensors { name: \"{layer}.w\" parts { tensor: \"layers.{layer}.w\" } }\n"
    "  tensors { name: \"{layer}.b\" when: \"biased\" parts { tensor: \"layers.{layer}.b\" } }\n";
constexpr const char* kOut = "  tensors { name: \"o\" parts { tensor: \"out\" } }\n";

std::string problem_of(const std::string& stored) { return family_problem(small_family(stored)); }

TEST(FamilyNamings, StoreEveryTensorOnce) {
  EXPECT_EQ(problem_of(std::string(kIn) + kLayer + kOut), "");
  EXPECT_THAT(problem_of(std::string(kIn) + kLayer),
              HasSubstr("12:1: error: with !biased: logical tensor \"out\" is not stored"));
  EXPECT_THAT(problem_of(std::string(kIn) + kIn + kLayer + kOut), HasSubstr("two tensors are named \"i\""));
  EXPECT_THAT(problem_of(std::string(kIn) + kLayer + kOut + "  tensors { name: \"p\" parts { tensor: \"out\" } }\n"),
              HasSubstr("logical tensor \"out\" is stored twice"));
}

TEST(FamilyNamings, AreCheckedForEverySettingOfTheSwitches) {
  const std::string always = R"(  tensors { name: "{layer}.b" parts { tensor: "layers.{layer}.b" } }
  tensors { name: "{layer}.w" parts { tensor: "layers.{layer}.w" } }
)";
  EXPECT_THAT(problem_of(kIn + always + kOut),
              HasSubstr("15:3: error: with !biased: there is no \"layers.{layer}.b\""));
  const std::string never = R"(  tensors { name: "{layer}.w" parts { tensor: "layers.{layer}.w" } }
)";
  EXPECT_THAT(problem_of(kIn + never + kOut),
              HasSubstr("with biased: logical tensor \"layers.{layer}.b\" is not stored"));
}

TEST(FamilyNamings, AliasesDoNotCount) {
  const std::string alias = "  tensors { name: \"p\" alias: true parts { tensor: \"out\" } }\n";
  EXPECT_EQ(problem_of(std::string(kIn) + kLayer + kOut + alias), "");
  EXPECT_THAT(problem_of(std::string(kIn) + kLayer + alias), HasSubstr("logical tensor \"out\" is not stored"));
}

TEST(FamilyNamings, ConstantsAreOfOnePartAndDoNotCount) {
  const auto constant = [](const std::string& more) {
    return "  tensors { name: \"c\" constant: 1 " + more + "parts { tensor: \"out\" } }\n";
  };
  EXPECT_EQ(problem_of(std::string(kIn) + kLayer + kOut + constant("")), "");
  EXPECT_THAT(problem_of(std::string(kIn) + kLayer + constant("")), HasSubstr("logical tensor \"out\" is not stored"));
  for (const char* more : {"alias: true ", "also: \"d\" ", "parts { tensor: \"in\" } "})
    EXPECT_THAT(problem_of(std::string(kIn) + kLayer + kOut + constant(more)), HasSubstr("a constant has one part"));
}

TEST(FamilyNamings, HaveNamesWithPlacesForLayers) {
  EXPECT_THAT(
      problem_of(std::string(kIn) + "  tensors { name: \"w\" parts { tensor: \"layers.{layer}.w\" } }\n" + kOut),
      HasSubstr("15:19: error: the name says the layer nowhere"));
  EXPECT_THAT(problem_of("  tensors { name: \"i.{layer}\" parts { tensor: \"in\" } }\n"),
              HasSubstr("the parts have no layer"));
  EXPECT_THAT(problem_of("  tensors { name: \"i.{layer}.{stage_layer}\" parts { tensor: \"layers.{layer}.w\" } }\n"),
              HasSubstr("the name says the layer twice"));
  EXPECT_THAT(problem_of("  tensors { name: \"i.{layer}\" also: \"j\" parts { tensor: \"layers.{layer}.w\" } }\n"),
              HasSubstr("the name says the layer nowhere"));
}

TEST(FamilyNamings, NameUnknownParts) {
  const std::string text = problem_of(R"(  tensors { name: "i" parts { tensor: "inn" } }
  tensors { name: "o" parts { tensor: "out" rows: QUERY } }
  tensors { name: "p" }
  tensors { name: "q" transposed: true parts { tensor: "out" } }
  tensors { name: "r" parts { tensor: "out" } parts { tensor: "layers.{layer}.w" } }
  tensors { name: "s" when: "biassed" parts { tensor: "out" } }
  chunk_prefix: "model." ignored: "***" prefixes: ["", ""]
)");
  for (const char* expected :
       {"14:39: error: unknown logical tensor \"inn\"", "hint: did you mean \"in\"?", "\"out\" has no query groups",
        "\"parts\" is missing", "\"out\" has not two dimensions", "the parts are of different layers or experts",
        "unknown switch \"biassed\"", "the prefix has {chunk} and no other hole", "more than 2 \"*\"",
        "the prefix is given twice"})
    EXPECT_THAT(text, HasSubstr(expected));
  EXPECT_THAT(text, Not(HasSubstr("is not stored")));  // that follows from the others
}

TEST(FamilyNamings, HaveNamesOfTheirOwn) {
  EXPECT_THAT(family_problem(replaced("name: \"n\"", "name: \"logical\"")), HasSubstr("are our own names"));
  const std::string again = small_family("") + small_family("").substr(small_family("").find("namings {"));
  EXPECT_THAT(family_problem(again), HasSubstr("naming \"n\" is described twice"));
}

TEST(FamilyNamings, SelectRowsOnceEach) {
  const std::string head = R"(schema_version: 1 name: "x"
sizes { name: "heads" keys: "h" }
tensors { name: "qkv" shape: ["4*heads", "2"] home: BOTH_ENDS
          query_groups { groups: "heads" queries: "2" head_dim: "1" } }
namings { name: "n"
)";
  const auto with = [&](const std::string& stored) { return family_problem(head + stored + "}\n"); };
  const std::string q = "tensors { name: \"q\" parts { tensor: \"qkv\" rows: QUERY } }\n";
  const std::string k = "tensors { name: \"k\" parts { tensor: \"qkv\" rows: KEY rotary: INTERLEAVED } }\n";
  const std::string v = "tensors { name: \"v\" parts { tensor: \"qkv\" rows: VALUE } }\n";
  EXPECT_EQ(with(q + k + v), "");
  EXPECT_THAT(with(q + k), HasSubstr("stored without some of its query, key and value rows"));
  EXPECT_THAT(with(q + k + v + "tensors { name: \"a\" parts { tensor: \"qkv\" } }"), HasSubstr("is stored twice"));
  EXPECT_THAT(with("tensors { name: \"v\" parts { tensor: \"qkv\" rows: VALUE rotary: INTERLEAVED } }"),
              HasSubstr("rotary positions turn queries and keys, not values"));
  EXPECT_THAT(with("tensors { name: \"a\" stage: FIRST_HOME parts { tensor: \"qkv\" } }"),
              HasSubstr("\"qkv\" is not stored on its second home"));
  EXPECT_EQ(with("tensors { name: \"a\" stage: FIRST_HOME parts { tensor: \"qkv\" } }\n"
                 "tensors { name: \"b\" stage: SECOND_HOME parts { tensor: \"qkv\" } }"),
            "");
}

}  // namespace family_namings_test
}  // namespace scalai::store
