#include "ptc/report/chart/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalai::report::chart {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Escaped, LeavesNoMarkup) {
  EXPECT_EQ(escaped("<a b=\"c\" d='e'> & f"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt; &amp; f");
  EXPECT_EQ(escaped("one\ntwo\tthree"), "one\ntwo three");
  EXPECT_EQ(escaped(std::string_view("\0\x1b\xff", 3)), "???");
  EXPECT_EQ(escaped("tp8 → tp4"), "tp8 → tp4");
}

TEST(Pixels, HaveOneDecimal) {
  EXPECT_EQ(pixels(12), "12");
  EXPECT_EQ(pixels(12.34), "12.3");
  EXPECT_EQ(pixels(-0.01), "0");
}

TEST(Fitted, CutsToTheWidth) {  // 7.2 pixels a character
  EXPECT_EQ(fitted("reshard", 7 * 7.2 + 0.1), "reshard");
  EXPECT_EQ(fitted("reshard", 4 * 7.2 + 0.1), "res…");
  EXPECT_EQ(fitted("reshard", 2 * 7.2 + 0.1), "");
  EXPECT_EQ(fitted("reshard", -5), "");
  EXPECT_DOUBLE_EQ(text_width("→→"), 2 * 7.2);
}

TEST(Svg, WritesShapesWithTheirNumbers) {
  Svg svg(100, 50);
  svg.rect({1, 2.25, 30, 4}, "seg k-stop", {.title = "stop: 28.5 s", .series = "stop", .value = 28.5});
  svg.text(5, 6, "a < b", "lab", Anchor::kEnd);
  svg.text(5, 6, "");
  const std::string text = svg.finish("f1w", "Pauses", "by \"phase\"");
  EXPECT_EQ(
      text,
      "<svg viewBox=\"0 0 100 50\" role=\"img\" aria-labelledby=\"f1w-t f1w-d\"><title id=\"f1w-t\">Pauses</title>"
      "<desc id=\"f1w-d\">by &quot;phase&quot;</desc>"
      "<rect x=\"1\" y=\"2.2\" width=\"30\" height=\"4\" class=\"seg k-stop\" data-s=\"stop\" data-v=\"28.5\">"
      "<title>stop: 28.5 s</title></rect>"
      "<text x=\"5\" y=\"6\" text-anchor=\"end\" class=\"lab\">a &lt; b</text></svg>\n");
}

TEST(Svg, ShapesWithoutNotesAreShort) {
  Svg svg(10, 10);
  svg.line(0, 0, 1, 1, "grid");
  svg.circle(1, 2, 3, "dot", {});
  svg.path("M0 0L1 1", "line", {});
  const std::string text = svg.finish("x", "t", "d");
  EXPECT_THAT(text, HasSubstr("<line x1=\"0\" y1=\"0\" x2=\"1\" y2=\"1\" class=\"grid\"/>"));
  EXPECT_THAT(text, HasSubstr("<circle cx=\"1\" cy=\"2\" r=\"3\" class=\"dot\"/>"));
  EXPECT_THAT(text, HasSubstr("<path d=\"M0 0L1 1\" class=\"line\"/>"));
  EXPECT_THAT(text, Not(HasSubstr("data-")));
}

}  // namespace
}  // namespace scalai::report::chart
