// Cuts of collection files: what each rule needs, and that it fits the tensors.

#include <gmock/gmock.h>

#include "ptc/state/collection/testing/support.h"

namespace scalai::collection {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A tensor of 10 by 6 with these cuts, on line 3.
std::string cut_by(const std::string& cuts) {
  return two_by_two("tensors { name: 'w' dtype: 'F32' shape: [10, 6] " + cuts + " }");
}

std::string problem_of(const std::string& cut) { return problems_of(cut_by("cuts { " + cut + " }")); }

TEST(FileCuts, EveryRule) {
  const auto first = [](const std::string& cut) {
    return boxes_of(read(cut_by("cuts { " + cut + " }")).collection, "w")[0];
  };
  EXPECT_EQ(first("axis: 'tp' dim: 0"), "[0:5, 0:6]");
  EXPECT_EQ(first("axis: 'tp' dim: 1 rule: BALANCED"), "[0:10, 0:3]");
  EXPECT_EQ(first("axis: 'tp+pp' dim: 0 rule: CEIL"), "[0:3, 0:6]");
  EXPECT_EQ(first("axis: 'tp' dim: 0 rule: PADDED multiple: 4"), "[0:8, 0:6]");
  EXPECT_EQ(first("axis: 'tp' dim: 0 rule: EXPLICIT bounds: [0, 1, 10]"), "[0:1, 0:6]");
  EXPECT_EQ(first("axis: 'tp+pp' dim: 0 rule: GROUPED groups: 2"), "[0:5, 0:6]");
  EXPECT_EQ(first("axis: 'tp' flat: true rule: BUCKET start: 1 bucket: 64"), "[0:5, 0:6][5:6, 0:1]");
}

TEST(FileCuts, OnlyTheFieldsOfTheRule) {
  EXPECT_THAT(problem_of("axis: 'tp' dim: 0 multiple: 2"), HasSubstr("\"multiple\" needs rule: PADDED"));
  EXPECT_THAT(problem_of("axis: 'tp' dim: 0 rule: CEIL bounds: 1"), HasSubstr("\"bounds\" needs rule: EXPLICIT"));
  EXPECT_THAT(problem_of("axis: 'tp' dim: 0 rule: EXPLICIT"), HasSubstr("\"bounds\" is missing"));
  EXPECT_THAT(problem_of("axis: 'tp' dim: 0 rule: GROUPED"), HasSubstr("\"groups\" is missing"));
  EXPECT_THAT(problem_of("axis: 'tp' dim: 0 rule: BUCKET"), HasSubstr("\"bucket\" is missing"));
  EXPECT_THAT(problem_of("axis: 'tp' dim: 0 rule: PADDED multiple: 99999999999"), HasSubstr("at most 2147483648"));
  EXPECT_THAT(problem_of("axis: 'tp' dim: 0 rule: PADDED multiple: 0"), HasSubstr("at least 1, found 0"));
}

TEST(FileCuts, AxisAndDimension) {
  EXPECT_THAT(problem_of("dim: 0"), HasSubstr("\"axis\" is missing"));
  EXPECT_THAT(problem_of("axis: 'tp'"), AllOf(HasSubstr("\"dim\" is missing"), HasSubstr("flat: true")));
  EXPECT_THAT(problem_of("axis: 'tp' flat: false"), HasSubstr("\"dim\" is missing"));
  EXPECT_THAT(problem_of("axis: 'tp' dim: -1"), HasSubstr("\"dim\" must be at least 0, found -1"));
  EXPECT_THAT(problem_of("axis: 'tp' dim: 0 flat: true"), HasSubstr("exclude each other"));
  EXPECT_THAT(problem_of("axis: 'tp+' dim: 0"), HasSubstr("stands between two axes"));
  EXPECT_THAT(problem_of("axis: 'tp+dp' dim: 0"), AllOf(HasSubstr("unknown axis \"dp\""), HasSubstr("did you mean")));
}

TEST(FileCuts, ThatDoNotFitPointAtTheCut) {
  EXPECT_THAT(problem_of("axis: 'tp+pp' dim: 0"),
              AllOf(HasSubstr("x.textproto:3:49: error: tensor \"w\" [10, 6]: cut over tp+pp: 10 does not divide by 4"),
                    HasSubstr("BALANCED, CEIL")));
  EXPECT_THAT(problem_of("axis: 'tp' dim: 2"), HasSubstr("there is no dimension 2"));
  EXPECT_THAT(problem_of("axis: 'tp' dim: 0 rule: EXPLICIT bounds: [0, 12, 10]"),
              HasSubstr("do not rise from 0 to 10"));
  EXPECT_THAT(problem_of("axis: 'tp' dim: 0 rule: GROUPED groups: 3"), HasSubstr("10 is not 3 groups"));
  EXPECT_THAT(problem_of("axis: 'tp' dim: 0 rule: GROUPED groups: 5"), HasSubstr("5 groups do not share out over 2"));
  EXPECT_THAT(problem_of("axis: 'tp' flat: true rule: BUCKET bucket: 63"), HasSubstr("63 does not divide by 2"));
  EXPECT_THAT(problem_of("axis: 'tp' flat: true rule: BUCKET start: 6 bucket: 64"), HasSubstr("60 elements from 6"));
  EXPECT_THAT(problems_of(cut_by("cuts { axis: 'tp' dim: 0 } cuts { axis: 'pp+tp' dim: 1 }")),
              AllOf(HasSubstr("x.textproto:3:76: error"), HasSubstr("the axis is cut twice")));
  EXPECT_THAT(problems_of(cut_by("cuts { axis: 'tp' flat: true } cuts { axis: 'pp' dim: 1 }")),
              HasSubstr("a flat cut must be the last"));
}

// What bounds leave out, or give away twice, is named as a box.
TEST(FileCuts, ExplicitBoundsWithAGapOrAnOverlap) {
  const auto with = [](const std::string& bounds) {
    return problem_of("axis: 'tp+pp' dim: 0 rule: EXPLICIT bounds: " + bounds);
  };
  EXPECT_EQ(with("[0, 3, 3, 4, 10]"), "");
  EXPECT_THAT(with("[0, 3, 4, 5, 9]"), HasSubstr("hint: no part holds [9:10, 0:6]"));
  EXPECT_THAT(with("[2, 3, 4, 5, 10]"), HasSubstr("hint: no part holds [0:2, 0:6]"));
  EXPECT_THAT(with("[0, 5, 4, 8, 10]"), HasSubstr("hint: two parts hold [4:5, 0:6]"));
  EXPECT_THAT(with("[0, 5, 10]"), AllOf(HasSubstr("in 4 parts"), Not(HasSubstr("hint"))));
  EXPECT_THAT(with("[-1, 3, 4, 5, 10]"), Not(HasSubstr("hint")));
}

TEST(FileLayouts, ByName) {
  const std::string layout = "layouts { name: 'column' cuts { axis: 'tp' dim: 0 } }\n";
  const auto with = [&](const std::string& rest) {
    return problems_of(two_by_two(layout + "tensors { name: 'w' dtype: 'F32' " + rest + " }"));
  };
  EXPECT_EQ(with("shape: 4 layout: 'column'"), "");
  EXPECT_THAT(with("shape: 5 layout: 'column'"),
              AllOf(HasSubstr("x.textproto:4:51: error: tensor \"w\" [5]: cut over tp: 5 does not divide by 2"),
                    HasSubstr("x.textproto:3:26: note: the cut is here")));
  EXPECT_THAT(with("shape: 4 layout: 'colum'"), HasSubstr("did you mean \"column\"?"));
  EXPECT_THAT(with("shape: 4 layout: 'column' cuts { axis: 'pp' dim: 0 }"), HasSubstr("exclude each other"));
  EXPECT_THAT(problems_of(two_by_two(layout + layout + "tensors { name: 'w' dtype: 'F32' }")),
              AllOf(HasSubstr("layout \"column\" is described twice"), HasSubstr("the first is here")));
}

TEST(FileLayouts, AProblemOfALayoutIsReportedOnce) {
  const std::string text =
      problems_of(two_by_two("layouts { name: 'l' cuts { axis: 'tp' } }\n"
                             "tensors { name: 'v' dtype: 'F32' shape: 4 layout: 'l' }\n"
                             "tensors { name: 'w' dtype: 'F32' shape: 4 layout: 'l' }"));
  EXPECT_THAT(text, AllOf(HasSubstr("x.textproto:3:21: error: \"dim\" is missing"), HasSubstr("1 error\n")));
}

}  // namespace
}  // namespace scalai::collection
