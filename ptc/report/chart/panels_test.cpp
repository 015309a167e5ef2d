#include "ptc/report/chart/panels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace scalai::report::chart {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// One panel of 110 pixels below a title of 24: 0 is at y = 4 + 24 + 110 = 138, 20 at y = 28. x: 30 … 950 for 0 … 92 s,
// 10 pixels a second.
Panels example_panels() {
  Panels chart{.id = "p", .title = "t", .description = "d", .x = {"time", Unit::kSeconds, "", 0, 92}};
  chart.panels.push_back({.y = {"GPUs", Unit::kCount, "GPUs", 0, 16}});
  chart.panels[0].series.push_back({.name = "a", .css = "k1", .points = {{0, 16}, {10, 8}, {20, 8}}, .steps = true});
  return chart;
}

TEST(Panels, StepsHoldTheirValue) {
  EXPECT_THAT(panels_svg(example_panels(), 960),
              HasSubstr("<path d=\"M30 50H130V94H230V94\" class=\"line k1\" data-s=\"a\" data-v=\"8\">"));
}

TEST(Panels, LinesAreStraightAndInterruptedWhereNothingIsKnown) {
  Panels chart = example_panels();
  chart.panels[0].series[0].steps = false;
  chart.panels[0].series[0].points = {{0, 0}, {1, 20}, {2, std::numeric_limits<double>::quiet_NaN()}, {3, 0}, {4, 20}};
  EXPECT_THAT(panels_svg(chart, 960), HasSubstr("M30 138L40 28M60 138L70 28"));
}

TEST(Panels, AreasReachDownToZero) {
  Panels chart = example_panels();
  chart.panels[0].series[0].area = true;
  EXPECT_THAT(panels_svg(chart, 960), HasSubstr("<path d=\"M30 50H130V94H230V94V138H30Z\" class=\"area k1\"/>"));
}

TEST(Panels, IntervalsAndDots) {
  Panels chart = example_panels();
  Series& series = chart.panels[0].series[0];
  series = {.name = "ettr", .css = "k2", .points = {{10, 10, 5, 15}}, .intervals = true, .dots = true};
  const std::string text = panels_svg(chart, 960);
  // 5 is at 138 − 5 · 5.5 = 110.5, 15 at 55.5, 10 at 83
  EXPECT_THAT(text, HasSubstr("<path d=\"M130 110.5V55.5\" class=\"whisker k2\"/>"));
  EXPECT_THAT(text, HasSubstr("<circle cx=\"130\" cy=\"83\" r=\"3\" class=\"dot k2\" data-s=\"ettr\" "
                              "data-v=\"10\"><title>ettr: 10</title>"));
}

TEST(Panels, NamesInPlaceOfNumbers) {
  Panels chart = example_panels();
  chart.x = {"availability.set.mtbf", Unit::kPlain, "", 0, 1};
  chart.x_labels = {"1h", "3h"};
  chart.panels[0].series[0].points = {{0, 1}, {1, 2}};
  const std::string text = panels_svg(chart, 960);
  EXPECT_THAT(text, HasSubstr("text-anchor=\"middle\" class=\"tick\">1h</text>"));
  EXPECT_THAT(text, HasSubstr(">availability.set.mtbf</text>"));
  EXPECT_THAT(text, Not(HasSubstr(">0.5</text>")));
}

TEST(Panels, StripsLieAboveAndPushPanelsDown) {
  Panels chart = example_panels();
  Lane strip{.label = "gpt"};
  append(strip, 10, "k-train", {.series = "train", .value = 10});
  chart.strips.push_back(strip);
  const std::string text = panels_svg(chart, 960);
  EXPECT_THAT(text, HasSubstr("<rect x=\"30\" y=\"20\" width=\"100\" height=\"20\" class=\"seg k-train\""));
  EXPECT_THAT(text, HasSubstr("d=\"M30 94H130V138"));  // 44 lower: 16 + 20 + 8
}

TEST(Panels, EqualPointsAreWrittenOnce) {
  Panels chart = example_panels();
  chart.panels[0].series[0].points = std::vector<Point>(1000, Point{10, 8});
  EXPECT_LT(panels_svg(chart, 960).size(), 2000U);
}

}  // namespace
}  // namespace scalai::report::chart
