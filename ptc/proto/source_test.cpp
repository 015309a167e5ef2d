#include "ptc/proto/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/proto/scenario.pb.h"

namespace scalai::proto {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Read {
  explicit Read(const std::string& text, const std::string& file = "x.textproto") : source(file, text) {
    source.parse(text, message);
  }
  Scenario message;
  Source source;
};

TEST(Source, PointsAtTheFieldWithHintAndNote) {
  Read read("name: \"a\"\njobs { name: \"b\" }\n");
  read.source.error("jobs[0].name", "it is taken", "choose another", {{"name", "by this"}});
  EXPECT_EQ(read.source.render(),
            "x.textproto:2:14: error: it is taken\n"
            "    2 | jobs { name: \"b\" }\n"
            "      |              ^~~\n"
            "hint: choose another\n"
            "x.textproto:1:7: note: by this\n"
            "    1 | name: \"a\"\n"
            "      |       ^~~\n"
            "1 error\n");
}

TEST(Source, PointsInsideATextThatIsWrittenAsIs) {
  Read read("name: \"abcd\"\ndescription: \"a\\x62cd\"\n");
  read.source.error_inside("name", "abcd", 3, 2, "these");
  read.source.error_inside("description", "abcd", 3, 2, "escaped: the whole text");
  EXPECT_THAT(read.source.render(), HasSubstr("x.textproto:1:10: error: these"));
  EXPECT_THAT(read.source.render(), HasSubstr("x.textproto:2:14: error: escaped"));
}

TEST(Source, WhatIsBrokenIsNotJudgedAgainButCounted) {
  Read read("name: 7\n");
  EXPECT_TRUE(read.source.broken("name"));
  read.source.missing("name");
  EXPECT_THAT(read.source.render(), Not(HasSubstr("missing")));
  EXPECT_EQ(read.source.errors(), 1);
}

TEST(Source, BrokenInsideIsSeenFromAbove) {
  Read read("jobs { name: \"a\" }\njobs { configs { layout: 7 } }\n");
  EXPECT_TRUE(read.source.broken_inside("jobs"));
  EXPECT_TRUE(read.source.broken_inside("jobs[1]"));
  EXPECT_TRUE(read.source.broken_inside("jobs[1].configs[0]"));
  EXPECT_FALSE(read.source.broken_inside("jobs[0]"));
  EXPECT_FALSE(read.source.broken_inside("jobs[1].configs[0].layout")) << "it is broken itself";
}

TEST(Source, UnknownNamesGetTheNearestOrTheList) {
  Read read("name: \"a\"\n");
  read.source.error_unknown("name", "colour", "gren", {"red", "green"});
  read.source.error_unknown("", "colour", "mauve", {"red", "green"});
  EXPECT_THAT(read.source.render(), HasSubstr("unknown colour \"gren\""));
  EXPECT_THAT(read.source.render(), HasSubstr("did you mean \"green\"?"));
  EXPECT_THAT(read.source.render(), HasSubstr("known are red, green"));
}

TEST(Source, ValuesInBaseUnits) {
  Read read("until: \"2min\"\nname: \"2mn\"\n");
  EXPECT_EQ(read.source.seconds("until", "2min"), 120.0);
  EXPECT_TRUE(read.source.empty());
  EXPECT_EQ(read.source.seconds("name", "2mn"), std::nullopt);
  EXPECT_THAT(read.source.render(), HasSubstr("x.textproto:2:7: error:"));
}

TEST(Source, NamesAndLowestValues) {
  Read read("name: \"a\\n\"\nseed: 1\njobs { gpus: -1 }\n");
  EXPECT_TRUE(read.source.at_least("seed", 1, 1));
  EXPECT_FALSE(read.source.at_least("jobs[0].gpus", -1, 1));
  EXPECT_FALSE(read.source.at_least("jobs[0].steps", 0, 1));
  EXPECT_FALSE(read.source.is_name("name", "a\n"));
  EXPECT_THAT(read.source.render(), HasSubstr("\"gpus\" must be at least 1, found -1"));
  EXPECT_THAT(read.source.render(), HasSubstr("\"steps\" is missing"));
  EXPECT_THAT(read.source.render(), HasSubstr("\"name\" contains control characters"));
}

TEST(Source, JsonIsKnownByNameOrBraceAndSpeaksInPointers) {
  for (const std::string file : {"x.json", "x"}) {
    Read read("{\"jobs\": [{\"gpus\": 1}]}", file);
    read.source.error("jobs[0].gpus", "too few");
    EXPECT_THAT(read.source.render(), HasSubstr("/jobs/0/gpus: too few")) << file;
  }
}

// What a setting from outside has changed is not said to be at a place of the file.
TEST(Source, ReplacedFieldsNameTheirSetting) {
  Read read("name: \"a\"\nuntil: \"1s\"\njobs { gpus: 1 }\n");
  read.source.replaced("name", "--set=name=b", true);
  read.source.replaced("until", "--set=until=", false);
  read.source.replaced("cluster.fabric.kind", "--set=cluster.fabric.kind=RAIL", true);
  EXPECT_TRUE(read.source.given("name") && read.source.given("cluster") && read.source.given("cluster.fabric.kind"));
  EXPECT_FALSE(read.source.given("until"));
  EXPECT_TRUE(read.source.is_replaced("name"));
  read.source.error("name", "too short");
  read.source.error("until", "is missing");
  read.source.error("cluster.fabric.kind", "not here");
  read.source.error("jobs[0].gpus", "too few", "", {{"name", "the name"}});
  const std::string text = read.source.render();
  EXPECT_THAT(text, HasSubstr("x.textproto: error: --set=name=b: too short\n"));
  EXPECT_THAT(text, HasSubstr("x.textproto: error: --set=until=: is missing\n"));
  EXPECT_THAT(text, HasSubstr("--set=cluster.fabric.kind=RAIL: not here"));
  EXPECT_THAT(text, HasSubstr("x.textproto:3:14: error: too few"));
  EXPECT_THAT(text, HasSubstr("x.textproto: note: --set=name=b: the name"));
}

// The file's second text of three goes, and a setting's comes at the end.
TEST(Source, ElementsOfAChangedListKeepTheirPlaces) {
  Read read("policy { set: \"a=1\" set: \"b=2\" set: \"c=3\" }\n");
  read.source.replaced_element("policy.set", "--set=policy.set.d=4", {0, 2, std::nullopt});
  EXPECT_TRUE(read.source.given("policy.set[2]"));
  EXPECT_FALSE(read.source.given("policy.set[3]"));
  read.source.error("policy.set[1]", "of c");
  read.source.error("policy.set[2]", "of d");
  EXPECT_THAT(read.source.render(), HasSubstr("x.textproto:1:37: error: of c"));
  EXPECT_THAT(read.source.render(), HasSubstr("x.textproto: error: --set=policy.set.d=4: of d"));
  read.source.replaced_element("policy.set", "--set=policy.set.a=", {});
  EXPECT_FALSE(read.source.given("policy.set[0]"));
}

TEST(Source, YamlIsToldAsSuchOnce) {
  for (const std::string text : {"name: x\ncluster:\n  hosts:\n    - count: 2\n", "jobs:\n- name: a\n",
                                 "# what if\ncluster:\n\n  # two hosts\n  hosts: 2\n"}) {
    const std::string problems = Read(text).source.render();
    EXPECT_THAT(problems, HasSubstr("this is YAML")) << text;
    EXPECT_THAT(problems, HasSubstr("1 error\n")) << text;
  }
  for (const std::string text : {"name:\n  \"x\"\n", "cluster: { hosts: { count: 2 } }\n", "jobs:\n{ name: \"a\" }\n",
                                 "jobs {\n  name: \"a\"\n}\n", "jobs: [\n  { name: \"a\" }\n]\n"})
    EXPECT_EQ(Read(text).source.render(), "") << text;
}

TEST(Source, TheLimitOfItsSizeCanBeAnother) {
  const std::string text = "name: \"" + std::string(2 * kMaxTextBytes, 'a') + "\"";
  EXPECT_THAT(Read(text).source.render(), HasSubstr("at most 1048576 are read"));
  Scenario message;
  Source source("x", text);
  source.parse(text, message, 4 * kMaxTextBytes);
  EXPECT_TRUE(source.empty());
}

TEST(FieldOf, TheLastNameWithoutItsIndex) {
  EXPECT_EQ(field_of("jobs[0].configs[2]"), "configs");
  EXPECT_EQ(field_of("name"), "name");
}

}  // namespace
}  // namespace scalai::proto
