#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/report/page/internal/document.h"
#include "ptc/report/page/page.h"

namespace scalai::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Document, EscapesEveryText) {
  Document page;
  const std::string bad = "<script>alert(1)</script>";
  page.heading(2, bad);
  page.paragraph(bad, "sub");
  page.list({bad}, "notes");
  page.table({{bad}, {{bad}}}, bad);
  page.folded_text(bad, bad);
  page.figure({.title = bad, .caption = bad, .legend = {{"k1", bad}}, .draw = [](const auto&, double) {
                 return std::string();
               }});
  const std::string html = page.finish(bad);
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, HasSubstr("<h2>&lt;script&gt;alert(1)&lt;/script&gt;</h2>"));
}

TEST(Document, NeedsNoNetworkAndIsAPageOfOurs) {
  const std::string html = Document().finish("t");
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, Not(HasSubstr("http:")));
  EXPECT_THAT(html, Not(HasSubstr("https:")));
  EXPECT_TRUE(is_html_page(html));
  EXPECT_FALSE(is_html_page("<!doctype html><title>notes</title>"));
}

TEST(Document, FiguresAreDrawnForWindowsAndPhonesAndHaveTheirNumbers) {
  Document page;
  page.figure(
      {.title = "Pauses",
       .draw = [](const std::string& id, double width) { return "[" + id + (width > 600 ? " wide]" : " narrow]"); },
       .numbers = {{"a", "b>"}, {{"x", "1"}}}});
  const std::string html = page.finish("t");
  EXPECT_THAT(html, HasSubstr("<div class=\"wide\">[f1w wide]</div>"));
  EXPECT_THAT(html, HasSubstr("<div class=\"narrow\">[f1n narrow]</div>"));
  EXPECT_THAT(html, HasSubstr("<th>a</th><th class=\"r\">b</th>"));
  EXPECT_THAT(html, HasSubstr("<td>x</td><td class=\"r\">1</td>"));
}

TEST(Document, LongCellsWrapAndPartsAreIndented) {
  Document page;
  page.table({{"a"}, {{"  part"}, {std::string(37, 'x')}, {std::string(36, 'y')}}}, "t");
  const std::string html = page.finish("t");
  EXPECT_THAT(html, HasSubstr("<td>\u2003part</td>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"w\">xxx"));
  EXPECT_THAT(html, HasSubstr("<td>yyy"));
}

}  // namespace
}  // namespace scalai::report
