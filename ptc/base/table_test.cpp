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
  EXPECT_EQ(table.csv(), "layout,GPUs\n\"tp2,pp4\",8\n\"say \"\"hi\"\"\nthere\",\n");
}

TEST(Table, CsvOfALoneEmptyCellIsStillARecord) {
  Table table({"only"});
  table.row({""});
  EXPECT_EQ(table.csv(), "only\n\"\"\n");
}

TEST(Table, TextKeepsControlCharactersOffTheTerminal) {
  Table table({"name"});
  table.row({"a\x1b[31m\nb"});
  EXPECT_EQ(table.text(), "name\n--------\na?[31m?b\n");
}

TEST(CsvCell, QuotesOnlyWhereNeeded) {
  EXPECT_EQ(csv_cell("plain text"), "plain text");
  EXPECT_EQ(csv_cell(""), "");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("\""), "\"\"\"\"");
  EXPECT_EQ(csv_cell("a\rb"), "\"a\rb\"");
}

TEST(TableDeathTest, RefusesRowsOfAnotherWidth) {
  EXPECT_EXIT(Table({"a", "b"}).row({"1"}), testing::ExitedWithCode(70), "CHECK failed");
}

}  // namespace
}  // namespace scalai
