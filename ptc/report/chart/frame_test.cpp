#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/report/chart/internal/frame.h"

namespace scalai::report::chart {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Gutter, TakesTheWidestLabelUpToAShareOfTheWidth) {
  EXPECT_DOUBLE_EQ(Gutter({"ab", "abcd"}, 960).left, 4 * 7.2 + 12);
  EXPECT_DOUBLE_EQ(Gutter({std::string(200, 'x')}, 960).left, 0.3 * 960 + 12);
}

TEST(Gutter, OfAPhonePutsLongLabelsAbove) {
  EXPECT_FALSE(Gutter({"h0"}, 340).above);
  EXPECT_TRUE(Gutter({"resize to 8 GPUs"}, 340).above);
  EXPECT_FALSE(Gutter({"resize to 8 GPUs"}, 960).above);
}

TEST(XAxis, HasGridTicksAndItsUnit) {
  Svg svg(960, 100);
  const Axis axis{"time", Unit::kSeconds, "", 0, 7200};
  draw_x_axis(svg, axis, Scale(axis, 0, 960), 0, 60, 960);
  const std::string text = svg.finish("a", "t", "d");
  EXPECT_THAT(text, HasSubstr(">time, h</text>"));
  EXPECT_THAT(text, HasSubstr("<line x1=\"480\" y1=\"0\" x2=\"480\" y2=\"60\" class=\"grid\"/>"));  // 1 of 2 h
  EXPECT_THAT(text, HasSubstr("<text x=\"480\" y=\"74\" text-anchor=\"middle\" class=\"tick\">1</text>"));
}

TEST(XAxis, LabelsStayInThePicture) {
  Svg svg(100, 100);
  const Axis axis{"n", Unit::kPlain, "", 0, 10000};
  draw_x_axis(svg, axis, Scale(axis, 4, 100), 0, 60, 100);
  EXPECT_THAT(svg.finish("a", "t", "d"), Not(HasSubstr("<text x=\"100\"")));  // 10000 at the right end is moved in
}

}  // namespace
}  // namespace scalai::report::chart
