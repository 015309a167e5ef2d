#include "ptc/report/chart/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/units.h"

namespace scalai::report::chart {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string bytes(double value) { return format_bytes(static_cast<int64_t>(value)); }

TEST(ShadeOf, IsTheEighthOfTheHighest) {
  EXPECT_EQ(shade_of(0, 8), 0);
  EXPECT_EQ(shade_of(0.001, 8), 1);
  EXPECT_EQ(shade_of(1, 8), 1);
  EXPECT_EQ(shade_of(1.001, 8), 2);
  EXPECT_EQ(shade_of(8, 8), 8);
  EXPECT_EQ(shade_of(9, 8), 8);
  EXPECT_EQ(shade_of(1, 0), 0);
}

TEST(HeatMap, JoinsNeighboursOfOneShade) {
  HeatMap chart{.id = "h", .title = "t", .description = "d", .x = {"time", Unit::kSeconds, "", 0, 40}};
  chart.rows = {"h0"};
  chart.values = {{0, 7.5, 8, 1}};
  chart.highest = 8;
  chart.words = bytes;
  const std::string text = heat_svg(chart, 960);
  // left 2 · 7.2 + 12 = 26.4; 40 s are 923.6 pixels, an interval 230.9
  EXPECT_THAT(
      text, HasSubstr("<rect x=\"257.3\" y=\"4\" width=\"461.8\" height=\"14\" class=\"h8\" data-s=\"h0\" data-v=\"8\">"
                      "<title>h0: up to 8 B</title></rect>"));
  EXPECT_THAT(text, HasSubstr("<rect x=\"719.1\" y=\"4\" width=\"230.9\" height=\"14\" class=\"h1\""));
}

Matrix example_matrix() {
  Matrix chart{.id = "m", .title = "t", .description = "d", .row_title = "from", .column_title = "to"};
  chart.rows = chart.columns = {"h0", "h1"};
  chart.values = {{0, 2e9}, {1e9, 0}};
  chart.words = bytes;
  return chart;
}

TEST(Matrix, HasEveryCellWithItsValue) {
  const std::string text = matrix_svg(example_matrix(), 960);
  EXPECT_THAT(text,
              HasSubstr("class=\"cell h8\" data-s=\"h0 h1\" data-v=\"2000000000\"><title>h0 → h1: 2.00 GB</title>"));
  EXPECT_THAT(text, HasSubstr("class=\"cell h4\" data-s=\"h1 h0\" data-v=\"1000000000\">"));
  EXPECT_THAT(text, HasSubstr("class=\"cell h0\" data-s=\"h0 h0\" data-v=\"0\">"));
  EXPECT_THAT(text, HasSubstr("class=\"cellt\">2.00 GB</text>"));
}

TEST(Matrix, LeavesOutValuesThatDoNotFit) {
  Matrix chart = example_matrix();
  chart.columns.assign(40, "h0");
  chart.values = {std::vector<double>(40, 1e9), std::vector<double>(40, 1e9)};
  EXPECT_THAT(matrix_svg(chart, 340), Not(HasSubstr("class=\"cellt\"")));
}

}  // namespace
}  // namespace scalai::report::chart
