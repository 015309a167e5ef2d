#include "ptc/store/naming/internal/name_template.h"

#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::store::internal {
namespace {

NameTemplate parsed(const std::string& text, bool pattern = false) {
  auto name = NameTemplate::parse(text, pattern);
  EXPECT_TRUE(name.ok()) << text << ": " << message_of(name.status());
  return name.ok() ? *name : NameTemplate();
}

std::string problem_of(const std::string& text, bool pattern = false) {
  return message_of(NameTemplate::parse(text, pattern).status());
}

TEST(NameTemplate, FillsAndMatches) {
  const NameTemplate name = parsed("layers.{stage_layer}.experts.{local_expert}.up");
  EXPECT_EQ(name.fill({.stage_layer = 12, .local_expert = 0}), "layers.12.experts.0.up");
  NameValues values;
  EXPECT_TRUE(name.matches("layers.7.experts.31.up", values));
  EXPECT_EQ(values.stage_layer, 7);
  EXPECT_EQ(values.local_expert, 31);
  EXPECT_EQ(values.layer, -1);
  EXPECT_TRUE(name.has(Hole::kStageLayer));
  EXPECT_FALSE(name.has(Hole::kLayer));
  for (const char* other : {"layers.7.experts.31.up2", "layers.7.experts..up", "layers.07.experts.1.up",
                            "layers.7.experts.x.up", "xlayers.7.experts.1.up", "layers.1234567890.experts.1.up", ""})
    EXPECT_FALSE(name.matches(other, values)) << other;
  EXPECT_TRUE(parsed("weight{local_expert}").matches("weight0", values));
}

TEST(NameTemplate, PatternsHaveStars) {
  NameValues values;
  const NameTemplate state = parsed("*_extra_state", true);
  EXPECT_TRUE(state.matches("decoder.layers.0.mlp._extra_state", values));
  EXPECT_TRUE(state.matches("_extra_state", values));
  EXPECT_FALSE(state.matches("_extra_state/shard_0", values));
  EXPECT_TRUE(parsed("*.{layer}.x*", true).matches("a.b.3.xyz", values));
  EXPECT_EQ(values.layer, 3);
}

TEST(NameTemplate, EmptyMatchesOnlyNothing) {
  NameValues values;
  EXPECT_TRUE(NameTemplate().matches("", values));
  EXPECT_FALSE(NameTemplate().matches("a", values));
  EXPECT_EQ(NameTemplate().fill({}), "");
}

TEST(NameTemplate, SaysWhatIsWrong) {
  EXPECT_EQ(problem_of("a.{layers}"),
            "there is no {layers}; use {layer}, {stage_layer}, {expert}, {local_expert} or {chunk}");
  EXPECT_EQ(problem_of("a.{layer"), "a \"{\" without a \"}\" after it");
  EXPECT_EQ(problem_of("a.layer}"), "a \"}\" without a \"{\" before it");
  EXPECT_EQ(problem_of("{layer}.{layer}"), "{layer} is there twice");
  EXPECT_EQ(problem_of("a*"), "\"*\" is for names that are ignored");
  EXPECT_EQ(problem_of("*a*b*", true), "more than 2 \"*\"");
}

}  // namespace
}  // namespace scalai::store::internal
