#include "ptc/run/scenario/scenario_vary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::scenario {
namespace scenario_vary_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string problem(const std::vector<std::string>& texts, size_t most = 100) {
  const auto axes = parse_axes(texts, most);
  return axes.ok() ? "" : message_of(axes.status());
}

TEST(Axes, ValuesBetweenCommas) {
  const Axis axis = parse_axis("policy.set.round=60s,a\\,b,").value();
  EXPECT_EQ(axis.path, "policy.set.round");
  EXPECT_THAT(axis.values, ElementsAre("60s", "a,b", ""));
  for (const char* text : {"x", "=1", "x="}) EXPECT_THAT(problem({text}), HasSubstr("write it like")) << text;
}

TEST(Axes, AllProblemsAtOnce) {
  const std::string text = problem({"a=1,1", "b=1", "b=2", "c"});
  EXPECT_THAT(text, HasSubstr("\"1\" is there twice"));
  EXPECT_THAT(text, HasSubstr("--vary=b=… is there twice"));
  EXPECT_THAT(text, HasSubstr("--vary=c: write it like"));
  EXPECT_THAT(problem({"a=1,2,3", "b=1,2"}, 5), HasSubstr("more than 5 runs"));
  EXPECT_EQ(problem({"a=1,2,3", "b=1,2"}, 6), "");
}

TEST(Axes, CombinationsLastAxisFastest) {
  const auto axes = parse_axes({"a=1,2", "b=x,y,z"}, 10).value();
  ASSERT_EQ(point_count(axes), 6u);
  EXPECT_THAT(values_at(axes, 1), ElementsAre("1", "y"));
  EXPECT_THAT(settings_at(axes, 5), ElementsAre("a=2", "b=z"));
  EXPECT_EQ(point_count({}), 1u);
  EXPECT_THAT(settings_at(axes, 0, {"c=3"}), ElementsAre("c=3", "a=1", "b=x"));
  EXPECT_TRUE(settings_at({}, 0).empty());
}

TEST(Axes, LabelsAreDifferentNamesOfFolders) {
  EXPECT_THAT(labels_of(parse_axes({"strategy=reshard,tenplex"}, 10).value()), ElementsAre("reshard", "tenplex"));
  EXPECT_THAT(labels_of(parse_axes({"policy.name=srtf", "workload.file=a/b.csv,a b.csv,../x"}, 10).value()),
              ElementsAre("srtf+a-b.csv", "srtf+a-b.csv~1", "srtf+x"));
  EXPECT_THAT(labels_of(parse_axes({"policy.exec=,/bin/x"}, 10).value()), ElementsAre("none", "bin-x"));
  EXPECT_THAT(labels_of({}), ElementsAre(""));
}

}  // namespace scenario_vary_test
}  // namespace scalai::scenario
