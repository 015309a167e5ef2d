#include "ptc/base/diagnostics.h"

#include <gtest/gtest.h>

namespace scalai {
namespace {

TEST(Diagnostics, RendersExcerptCaretHintAndNote) {
  Diagnostics problems("elastic.textproto", "a\nb\ncluster { gpus: 16 }\nevents {\n  at: \"35mn\"\n}\n");
  Diagnostic problem;
  problem.place = {5, 7, 6};
  problem.message = "\"35mn\" is not a duration: unknown unit \"mn\"";
  problem.hint = "write it like \"35min\"\nor in seconds";
  problem.notes = {{{3, 11, 8}, "the cluster has 16 GPUs"}};
  problems.error(problem);
  EXPECT_EQ(problems.render(),
            "elastic.textproto:5:7: error: \"35mn\" is not a duration: unknown unit \"mn\"\n"
            "    5 |   at: \"35mn\"\n"
            "      |       ^~~~~~\n"
            "hint: write it like \"35min\"\n"
            "hint: or in seconds\n"
            "elastic.textproto:3:11: note: the cluster has 16 GPUs\n"
            "    3 | cluster { gpus: 16 }\n"
            "      |           ^~~~~~~~\n"
            "1 error\n");
}

TEST(Diagnostics, SortsByPlaceAndDropsDuplicates) {
  Diagnostics problems("f", "one\r\ntwo");
  problems.error({2, 2, 1}, "third");
  problems.error({1, 3, 1}, "second");
  problems.error({2, 2, 1}, "third");
  problems.error({}, "first");
  problems.error({2, 2, 1}, "fourth");
  EXPECT_EQ(problems.render(),
            "f: error: first\n"
            "f:1:3: error: second\n"
            "    1 | one\n"
            "      |   ^\n"
            "f:2:2: error: third\n"
            "    2 | two\n"
            "      |  ^\n"
            "f:2:2: error: fourth\n"
            "    2 | two\n"
            "      |  ^\n"
            "4 errors\n");
}

TEST(Diagnostics, IsEmptyWithoutProblems) {
  Diagnostics problems("f", "text");
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(problems.render(), "");
  EXPECT_EQ(problems.file(), "f");
  problems.error({1, 1, 1}, "x");
  EXPECT_FALSE(problems.empty());
  EXPECT_EQ(problems.problems().size(), 1u);
}

TEST(Diagnostics, CountsCharactersNotBytes) {
  Diagnostics problems("f", "\tgröße = \"…\" x");
  problems.error({1, 10, 3}, "bad");
  EXPECT_EQ(problems.render(),
            "f:1:10: error: bad\n"
            "    1 |  größe = \"…\" x\n"
            "      |          ^~~\n"
            "1 error\n");
}

TEST(Diagnostics, ShowsNothingThatWouldSteerTheTerminal) {
  Diagnostics problems("f", "a\x1b[31m\xff\xc2\x85 b");
  problems.error({1, 9, 1}, "bad \x1b[2J\nf:2:1: error: forged", "see \x07");
  EXPECT_EQ(problems.render(),
            "f:1:9: error: bad ?[2J?f:2:1: error: forged\n"
            "    1 | a?[31m?? b\n"
            "      |         ^\n"
            "hint: see ?\n"
            "1 error\n");
}

std::string digits(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>('0' + i % 10);
  return text;
}

TEST(Diagnostics, KeepsLinesOf160ColumnsWhole) {
  Diagnostics problems("f", digits(160));
  problems.error({1, 160, 9}, "bad");
  EXPECT_EQ(problems.render(),
            "f:1:160: error: bad\n    1 | " + digits(160) + "\n      | " + std::string(159, ' ') + "^\n1 error\n");
}

TEST(Diagnostics, ClipsLongLinesAroundTheCaret) {
  const std::string line = digits(1'000);
  const auto rendered = [&](int column) {
    Diagnostics problems("f", line);
    problems.error({1, column, 5}, "bad");
    return problems.render();
  };
  EXPECT_EQ(rendered(3), "f:1:3: error: bad\n    1 | " + line.substr(0, 159) + "…\n      |   ^~~~~\n1 error\n");
  EXPECT_EQ(rendered(501), "f:1:501: error: bad\n    1 | …" + line.substr(421, 158) + "…\n      | " +
                               std::string(80, ' ') + "^~~~~\n1 error\n");
  EXPECT_EQ(rendered(1'000), "f:1:1000: error: bad\n    1 | …" + line.substr(841) + "\n      | " +
                                 std::string(159, ' ') + "^\n1 error\n");
}

TEST(Diagnostics, SurvivesPlacesOutsideTheText) {
  Diagnostics problems("f", "ab\n");
  problems.error({1, 99, 1}, "past the end");
  problems.error({2, 1, 7}, "end of file");
  problems.error({3, 1, 1}, "no such line");
  problems.error({1, 0, 1}, "whole line");
  EXPECT_EQ(problems.render(),
            "f:1: error: whole line\n"
            "    1 | ab\n"
            "f:1:99: error: past the end\n"
            "    1 | ab\n"
            "      |   ^\n"
            "f:2:1: error: end of file\n"
            "    2 |\n"
            "      | ^\n"
            "f:3:1: error: no such line\n"
            "4 errors\n");
}

TEST(Closest, FindsTypos) {
  const std::vector<std::string> words = {"format", "from", "seed", "output"};
  EXPECT_EQ(closest("formt", words), "format");    // a letter missing
  EXPECT_EQ(closest("fromat", words), "format");   // two swapped
  EXPECT_EQ(closest("sead", words), "seed");       // one wrong
  EXPECT_EQ(closest("outputs", words), "output");  // one too many
  EXPECT_EQ(closest("seed", words), "seed");
  EXPECT_EQ(closest("form", words), "from");
}

TEST(Closest, DoesNotGuessWildly) {
  const std::vector<std::string> words = {"format", "seed", "x"};
  EXPECT_EQ(closest("banana", words), "");
  EXPECT_EQ(closest("", words), "");
  EXPECT_EQ(closest("y", words), "");
  EXPECT_EQ(closest("sxxd", words), "");
  EXPECT_EQ(closest(std::string(1'000'000, 'f'), words), "");
  EXPECT_EQ(closest("format", {}), "");
}

}  // namespace
}  // namespace scalai
