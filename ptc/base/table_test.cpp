#include "ptc/base/table.h"

#include <gtest/gtest.h>

namespace scalai {
namespace {

TEST(Table, AlignsWordsLeftAndNumbersRight) {
  Table table({"layout", "GPUs>", "note"});
  table.row({"tp2", "8", "größer"});
  table.row({"tp2,pp4", "1024", ""});
  table.rule();
  table.row({"all", "1032", "x"});
  EXPECT_EQ(table.text(),
            "layout   GPUs  note\n"
            "-------  ----  ------\n"
            "tp2         8  größer\n"
            "tp2,pp4  1024\n"
            "-------  ----  ------\n"
            "all      1032  x\n");
}

TEST(Table, WithoutRowsPrintsItsHeader) {
  const Table table({"a", "bb>"});
  EXPECT_EQ(table.text(), "a  bb\n-  --\n");
  EXPECT_EQ(table.csv(), "a,bb\n");
}

TEST(Table, CsvQuotesWhatItMustAndHasNoRules) {
  Table table({"layout", "GPUs>"});
  table.rule();
  table.row({"tp2,pp4", "8"});
  table.row({"say \"hi\"\nthere", ""});
  EXPECT_EQ(table.csv(), "layout,GPUs\n\"tp2,pp4\",8\n\"say \"\"hi\"\"; there\",\n");
}

TEST(Table, CsvOfALoneEmptyCellIsStillARecord) {
  Table table({"only"});
  table.row({""});
  EXPECT_EQ(table.csv(), "only\n\"\"\n");
}

TEST(Table, TextKeepsControlCharactersOffTheTerminal) {
  Table table({"name"});
  table.row({"a\x1b[31m\nb"});
  EXPECT_EQ(table.text(), "name\n---------\na?[31m; b\n");
}

TEST(Table, ACellOfSeveralLinesIsOneLine) {
  Table table({"failure"});
  table.row({"no source for 6.02 GB of state:\n  embedding: 12 boxes\n  layers 0 to 3: 48 boxes\n"});
  EXPECT_EQ(table.csv(), "failure\nno source for 6.02 GB of state: embedding: 12 boxes; layers 0 to 3: 48 boxes\n");
}

Table wide_table() {
  Table table({"job", "cause", "bytes>", "bound>", "why~"});
  table.leave_out_first({"bound"});
  table.row({"one", "lost all devices of host seven of rack two", "12 GB", "11 GB", "the host was taken"});
  return table;
}

TEST(Table, AsWideAsItIsWithoutAScreen) {
  EXPECT_EQ(wide_table().text(),
            "job  cause                                       bytes  bound  why\n"
            "---  ------------------------------------------  -----  -----  ------------------\n"
            "one  lost all devices of host seven of rack two  12 GB  11 GB  the host was taken\n");
  EXPECT_EQ(wide_table().text({.columns = 81}), wide_table().text());
}

TEST(Table, ShortensNamesInTheMiddleBeforeItLeavesOutColumns) {
  EXPECT_EQ(wide_table().text({.columns = 80}),
            "job  cause                                      bytes  bound  why\n"
            "---  -----------------------------------------  -----  -----  ------------------\n"
            "one  lost all devices of …st seven of rack two  12 GB  11 GB  the host was taken\n"
            "shortened: cause; --wide shows all\n");
}

TEST(Table, LeavesOutColumnsInTheStatedOrderThenFromTheRight) {
  EXPECT_EQ(wide_table().text({.columns = 50}),
            "job  cause               bytes  why\n"
            "---  ------------------  -----  ------------------\n"
            "one  lost all …rack two  12 GB  the host was taken\n"
            "not shown: bound; shortened: cause; --wide shows\n"
            "all\n");
  EXPECT_EQ(wide_table().text({.columns = 40}),
            "job  cause                         bytes\n"
            "---  ----------------------------  -----\n"
            "one  lost all devic…n of rack two  12 GB\n"
            "not shown: bound, why; shortened: cause;\n"
            "--wide shows all\n");
}

TEST(Table, ColumnsOfOneNameGoTheLastFirst) {
  Table table({"run", "one>", "Δ>", "two>", "Δ>"});
  table.leave_out_first({"Δ"});
  table.row({"downtime", "100 s", "=", "1234567890 s", "+2000 %"});
  EXPECT_EQ(table.text({.columns = 32}),
            "run         one  Δ           two\n"
            "--------  -----  -  ------------\n"
            "downtime  100 s  =  1234567890 s\n"
            "not shown: Δ; --wide shows all\n");
  EXPECT_EQ(table.text({.columns = 30}),
            "run         one           two\n"
            "--------  -----  ------------\n"
            "downtime  100 s  1234567890 s\n"
            "not shown: Δ; --wide shows all\n");
}

TEST(Table, SentencesGoOnSeveralLines) {
  Table table({"name", "GPUs>", "what it is~"});
  table.row({"a", "8", "as many words as there are, until no one reads them"});
  table.row({"b", "16", ""});
  const std::string text = table.text({.columns = 48});
  EXPECT_EQ(text,
            "name  GPUs  what it is\n"
            "----  ----  ------------------------------------\n"
            "a        8  as many words as there are, until no\n"
            "            one reads them\n"
            "b       16\n");
}

TEST(Table, TheLastColumnIsCutOnlyWhereNothingElseIsLeft) {
  Table table({"name", "GPUs>"});
  table.row({"a name of thirty-two characters.", "8"});
  EXPECT_EQ(table.text({.columns = 10}),
            "name\n"
            "----------\n"
            "a nam…ers.\n"
            "not shown:\n"
            "GPUs;\n"
            "shortened:\n"
            "name;\n"
            "--wide\n"
            "shows all\n");
}

TEST(Table, ColourIsForHeadersAndNotesAndChangesNoColumn) {
  Table table({"a", "b>"});
  table.row({"x", "10"});
  EXPECT_EQ(table.text({.colour = true}), "\033[1ma   b\033[0m\n\033[2m-  --\033[0m\nx  10\n");
}

TEST(Table, CsvIsAlwaysWhole) {
  EXPECT_EQ(
      wide_table().csv(),
      "job,cause,bytes,bound,why\none,lost all devices of host seven of rack two,12 GB,11 GB,the host was taken\n");
}

TEST(TableDeathTest, RefusesUnknownColumnsToLeaveOut) {
  EXPECT_EXIT(Table({"a", "b"}).leave_out_first({"c"}), testing::ExitedWithCode(70), "CHECK failed");
}

TEST(CsvCell, QuotesOnlyWhereNeeded) {
  EXPECT_EQ(csv_cell("plain text"), "plain text");
  EXPECT_EQ(csv_cell(""), "");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("\""), "\"\"\"\"");
  EXPECT_EQ(csv_cell("a\rb"), "\"a\rb\"");
}

// Quotes do not help: a spreadsheet looks at what is inside.
TEST(CsvCell, NoSpreadsheetRunsIt) {
  const std::vector<std::pair<std::string, std::string>> cells = {
      {"=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"},
      {"=HYPERLINK(\"http://x\",1)", "\"'=HYPERLINK(\"\"http://x\"\",1)\""},
      {"-3+cmd|' /C calc'!A0", "'-3+cmd|' /C calc'!A0"},
      {"+A1", "'+A1"},
      {"-job", "'-job"},
      {"@SUM(1)", "'@SUM(1)"},
      {"\t=1", "'\t=1"},
      {"'=1", "''=1"},
      {"=", "'="},
      // These are what they were, also for programs.
      {"-3", "-3"},
      {"-3.5e-07", "-3.5e-07"},
      {"-inf", "-inf"},
      {"+5.2 %", "+5.2 %"},
      {"-12 GB/s", "-12 GB/s"},
      {"-", "-"},
      {"a=b", "a=b"},
      {"'", "'"},
      {"'a", "'a"},
      {"tp2,dp2", "\"tp2,dp2\""}};
  for (const auto& [text, cell] : cells) {
    EXPECT_EQ(csv_cell(text), cell);
    if (cell.starts_with('"')) continue;
    EXPECT_EQ(csv_text(cell), text);
  }
  EXPECT_EQ(csv_text("'=a"), "=a");
  EXPECT_EQ(csv_text("'a"), "'a");
  EXPECT_EQ(csv_text(""), "");
}

TEST(TableDeathTest, RefusesRowsOfAnotherWidth) {
  EXPECT_EXIT(Table({"a", "b"}).row({"1"}), testing::ExitedWithCode(70), "CHECK failed");
}

}  // namespace
}  // namespace scalai
