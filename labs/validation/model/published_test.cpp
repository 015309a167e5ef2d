#include "labs/validation/model/published.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalai::step::validation {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHead = "# kind: step\n# title: t\n# source: s\n";

struct Read {
  Diagnostics problems;
  PublishedTable table;
};

Read read(const std::string& text) {
  Diagnostics problems("t.csv", text);
  PublishedTable table = read_table("t", text, problems);
  return {std::move(problems), std::move(table)};
}

std::vector<std::string> texts(const std::vector<Cell>& cells) {
  std::vector<std::string> result;
  for (const Cell& cell : cells) result.push_back(cell.text);
  return result;
}

TEST(Published, HeaderColumnsAndRows) {
  const Read file = read(
      "# kind: step\n# title: A table\n#   of two lines\n# source: http://example.org/a: b\n"
      "# default: tp=8 unit=s\n\na,b,c\n1,two , \n\"x, \"\"y\"\"\",,3\n");
  ASSERT_TRUE(file.problems.empty()) << file.problems.render();
  EXPECT_EQ(file.table.said("kind"), "step");
  EXPECT_EQ(file.table.said("title"), "A table of two lines");
  EXPECT_EQ(file.table.said("source"), "http://example.org/a: b");
  EXPECT_EQ(file.table.said("goal"), "");
  EXPECT_EQ(file.table.defaults, (std::map<std::string, std::string>{{"tp", "8"}, {"unit", "s"}}));
  EXPECT_THAT(texts(file.table.columns), ElementsAre("a", "b", "c"));
  ASSERT_EQ(file.table.rows.size(), 2U);
  EXPECT_THAT(texts(file.table.rows[0]), ElementsAre("1", "two", ""));
  EXPECT_THAT(texts(file.table.rows[1]), ElementsAre("x, \"y\"", "", "3"));
}

TEST(Published, PlacesCountCharacters) {
  const Read file = read(std::string(kHead) + "a,b\nµs,12\n");
  ASSERT_EQ(file.table.rows.size(), 1U);
  EXPECT_EQ(file.table.rows[0][1].place.line, 5);
  EXPECT_EQ(file.table.rows[0][1].place.column, 4);
  EXPECT_EQ(file.table.rows[0][1].place.length, 2);
}

TEST(Published, WindowsLineEnds) {
  const Read file = read("# kind: step\r\n# title: t\r\n# source: s\r\na,b\r\n1,2\r\n");
  ASSERT_TRUE(file.problems.empty()) << file.problems.render();
  EXPECT_THAT(texts(file.table.rows[0]), ElementsAre("1", "2"));
}

TEST(Published, AllProblemsAtOnce) {
  const std::string said = read("# title: t\n# default: tp=8 =3 x\na,b\n1\n1,2,3\n\"open,2\n").problems.render();
  EXPECT_THAT(said, HasSubstr("no comment line \"# kind: …\""));
  EXPECT_THAT(said, HasSubstr("no comment line \"# source: …\""));
  EXPECT_THAT(said, HasSubstr("t.csv:2:1: error: \"=3\" is not COLUMN=VALUE"));
  EXPECT_THAT(said, HasSubstr("\"x\" is not COLUMN=VALUE"));
  EXPECT_THAT(said, HasSubstr("t.csv:4:1: error: 1 cells, but the table has 2 columns"));
  EXPECT_THAT(said, HasSubstr("t.csv:5:1: error: 3 cells, but the table has 2 columns"));
  EXPECT_THAT(said, HasSubstr("t.csv:6:1: error: this quote is never closed"));
}

TEST(Published, EmptyFile) {
  EXPECT_THAT(read("").problems.render(), HasSubstr("no rows"));
  EXPECT_THAT(read(std::string(kHead) + "a,b\n").problems.render(), HasSubstr("no rows"));
}

TEST(Published, CellsDefaultsAndFallbacks) {
  Read file = read(std::string(kHead) + "# default: b=7 c=no\na,b,d\n5,,1\n");
  RowReader row(file.table, 0, file.problems);
  EXPECT_EQ(row.count("a"), 5);
  EXPECT_EQ(row.count("b"), 7);     // empty here, so by default
  EXPECT_EQ(row.count("b", 9), 7);  // which comes before a fallback
  EXPECT_EQ(row.count("missing", 9), 9);
  EXPECT_TRUE(row.flag("d", false));
  EXPECT_FALSE(row.flag("missing", false));
  EXPECT_EQ(row.text("c"), "no");
  EXPECT_TRUE(row.has("c"));
  EXPECT_FALSE(row.has("missing"));
  EXPECT_DOUBLE_EQ(row.number("a"), 5);
  EXPECT_TRUE(row.ok());
}

TEST(Published, WrongCellsAreProblemsAtTheirPlace) {
  Read file = read(std::string(kHead) + "# default: b=-7\na,c,d\n5x,nan,2\n");
  RowReader row(file.table, 0, file.problems);
  EXPECT_EQ(row.count("a"), 0);
  row.count("b");
  row.number("b");
  row.number("c");
  row.flag("d", false);
  row.text("e");
  row.count("e");
  EXPECT_FALSE(row.ok());
  const std::string said = file.problems.render();
  EXPECT_THAT(said, HasSubstr("t.csv:6:1: error: \"5x\" is not a count"));
  EXPECT_THAT(said, HasSubstr("t.csv:4:1: error: \"-7\" is not a count"));  // where the default is
  EXPECT_THAT(said, HasSubstr("t.csv:4:1: error: \"-7\" is not a number >= 0"));
  EXPECT_THAT(said, HasSubstr("t.csv:6:4: error: \"nan\" is not a number >= 0"));
  EXPECT_THAT(said, HasSubstr("t.csv:6:8: error: \"2\" is neither 0 nor 1"));
  EXPECT_THAT(said, HasSubstr("t.csv:6:1: error: no \"e\""));
}

TEST(Published, UnknownColumns) {
  Read file = read(std::string(kHead) + "# default: sequnce=1\nlabel,gups\nx,1\n");
  check_columns(file.table, {"label", "gpus", "sequence"}, file.problems);
  const std::string said = file.problems.render();
  EXPECT_THAT(said, HasSubstr("t.csv:5:7: error: tables of this kind have no column \"gups\""));
  EXPECT_THAT(said, HasSubstr("did you mean \"gpus\"?"));
  EXPECT_THAT(said, HasSubstr("t.csv:4:1: error: tables of this kind have no column \"sequnce\""));
}

}  // namespace
}  // namespace scalai::step::validation
