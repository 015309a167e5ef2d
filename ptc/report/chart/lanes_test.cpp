#include "ptc/report/chart/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalai::report::chart {
namespace {

using ::testing::HasSubstr;

TEST(Append, PutsPartsOneAfterAnother) {
  Lane lane;
  append(lane, 15, "k-detect", {}, 10);
  append(lane, 5, "k-stop", {}, 10);
  EXPECT_DOUBLE_EQ(lane.segments[0].low, 10);
  EXPECT_DOUBLE_EQ(lane.segments[1].low, 25);
  EXPECT_DOUBLE_EQ(lane.segments[1].high, 30);
}

Lanes example_lanes() {
  Lanes chart{.id = "p", .title = "Pauses", .description = "one", .x = {"pause", Unit::kSeconds, "", 0, 100}};
  Lane lane{.label = "ab"};
  append(lane, 25, "k-stop", {.title = "stop: 25.0 s", .series = "stop", .value = 25});
  append(lane, 0.001, "k-plan", {.series = "plan", .value = 0.001});
  lane.markers.push_back({50, "bound", "bound"});
  lane.end = "25.0 s";
  chart.lanes.push_back(lane);
  return chart;
}

// Left: 2 · 7.2 + 12 = 26.4; right: 960 − (6 · 7.2 + 10) = 906.8; a second is 8.804 pixels.
TEST(Lanes, AreToScale) {
  const std::string text = lanes_svg(example_lanes(), 960);
  EXPECT_THAT(text, HasSubstr("<rect x=\"26.4\" y=\"4\" width=\"220.1\" height=\"20\" class=\"seg k-stop\" "
                              "data-s=\"stop\" data-v=\"25\">"));
  EXPECT_THAT(text, HasSubstr("<path d=\"M466.6 1V27\" class=\"mark bound\"><title>bound</title></path>"));
  EXPECT_THAT(text, HasSubstr(">25.0 s</text>"));
}

TEST(Lanes, NothingIsThinnerThanAPixel) {
  EXPECT_THAT(lanes_svg(example_lanes(), 960),
              HasSubstr("width=\"1\" height=\"20\" class=\"seg k-plan\" data-s=\"plan\" data-v=\"0.001\""));
}

TEST(Lanes, OfAPhoneHaveLongLabelsAbove) {
  Lanes chart = example_lanes();
  chart.lanes[0].label = "resize to 8, then back";
  EXPECT_THAT(lanes_svg(chart, 340), HasSubstr("<text x=\"4\" y=\"15\" class=\"lab\">resize to 8, then back</text>"));
}

TEST(Lanes, WriteLabelsWhereTheyFit) {
  Lanes chart = example_lanes();
  chart.lanes[0].segments[0].label = "tp2,pp4";
  EXPECT_THAT(lanes_svg(chart, 960), HasSubstr(" class=\"in\">tp2,pp4</text>"));
  chart.lanes[0].segments[0].high = 1;  // 9 pixels
  EXPECT_THAT(lanes_svg(chart, 960), ::testing::Not(HasSubstr("tp2,pp4")));
}

}  // namespace
}  // namespace scalai::report::chart
