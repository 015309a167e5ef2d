// Repetition in collection files, names that come out twice, and cover.

#include <gmock/gmock.h>

#include "ptc/state/collection/testing/support.h"

namespace scalai::collection {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string layers(const std::string& rest, const std::string& name = "layers.{layer}.norm") {
  return two_by_two("repeats { variable: 'layer' " + rest + " tensors { name: '" + name +
                    "' dtype: 'F32' shape: 4 } }\n");
}

// Coordinates on pp of the tensors, in order.
std::vector<int> stages_of(const std::string& text) {
  std::vector<int> stages;
  for (const LogicalTensor& tensor : read(text).collection.tensors)
    stages.push_back(tensor.pins.at(0).coordinates.at(0));
  return stages;
}

TEST(Repeats, SpreadOverAnAxis) {
  EXPECT_THAT(stages_of(layers("count: 5 spread { axis: 'pp' }")), ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(stages_of(layers("count: 5 spread { axis: 'pp' counts: [1, 4] }")), ElementsAre(0, 1, 1, 1, 1));
  EXPECT_THAT(stages_of(layers("count: 5 spread { axis: 'pp' turns: 2 }")), ElementsAre(0, 0, 1, 0, 1));
  EXPECT_THAT(stages_of(layers("count: 5 spread { axis: 'pp' counts: [2, 1, 1, 1] }")), ElementsAre(0, 0, 1, 0, 1));
  EXPECT_THAT(stages_of(layers("count: 1 spread { axis: 'pp' turns: 1000000000 }")), ElementsAre(0));
}

TEST(Repeats, SpreadsThatDoNotAddUp) {
  EXPECT_THAT(problems_of(layers("count: 5 spread { axis: 'pp' counts: [2, 2] }")),
              AllOf(HasSubstr("the counts sum to 4, the repeat counts to 5"), HasSubstr("note: here")));
  EXPECT_THAT(problems_of(layers("count: 5 spread { axis: 'pp' counts: [2, 2, 1] }")),
              HasSubstr("3 runs do not go around axis pp of size 2"));
  EXPECT_THAT(problems_of(layers("count: 5 spread { axis: 'pp' counts: [6, -1] }")), HasSubstr("at least 0, found -1"));
  EXPECT_THAT(problems_of(layers("count: 5 spread { axis: 'pp' counts: [3, 2] turns: 1 }")),
              HasSubstr("how many turns"));
  EXPECT_THAT(problems_of(layers("count: 5 spread { axis: 'pq' }")), HasSubstr("unknown axis \"pq\""));
  EXPECT_THAT(problems_of(layers("count: 5 spread { turns: 2 }")), HasSubstr("\"axis\" is missing"));
}

TEST(Repeats, VariablesAndCounts) {
  EXPECT_THAT(problems_of(layers("count: 0")), HasSubstr("\"count\" must be at least 1"));
  EXPECT_THAT(problems_of(layers("")), HasSubstr("\"count\" is missing"));
  EXPECT_THAT(problems_of(layers("count: 300000")), HasSubstr("more than 262144 tensors"));
  EXPECT_THAT(problems_of(two_by_two("repeats { variable: 'a b' count: 2 }")),
              AllOf(HasSubstr("letters, digits"), HasSubstr("\"tensors\" is missing")));
  EXPECT_THAT(problems_of(two_by_two("repeats { variable: 'i' count: 2 repeats { variable: 'i' count: 2 "
                                     "tensors { name: 'w{i}' dtype: 'F32' } } }")),
              HasSubstr("the repeat around this one counts \"i\" too"));
  EXPECT_THAT(problems_of(layers("count: 2", "layers.{leyer}.norm")), HasSubstr("did you mean \"layer\"?"));
  EXPECT_THAT(problems_of(layers("count: 2", "layers.{layer.norm")), HasSubstr("braces hold the variable"));
  EXPECT_THAT(problems_of(two_by_two("tensors { name: 'w{layer}' dtype: 'F32' }")), HasSubstr("unknown variable"));
}

TEST(Names, AreGlobal) {
  EXPECT_THAT(problems_of(layers("count: 3", "layers.norm")),
              AllOf(HasSubstr("all 3 repetitions are named \"layers.norm\""), HasSubstr("put {layer} into it")));
  EXPECT_EQ(problems_of(layers("count: 1", "layers.norm")), "");
  const std::string twice = problems_of(layers("count: 3") + "tensors { name: 'layers.1.norm' dtype: 'F32' shape: 4 }");
  EXPECT_THAT(twice, AllOf(HasSubstr("two tensors are named \"layers.1.norm\""), HasSubstr("not within a stage"),
                           HasSubstr("x.textproto:4:17: note: the other is here"), HasSubstr("1 error\n")));
}

// Stage-local numbering: each stage counts its layers from 0.
TEST(Names, ThatStagesNumberForThemselvesCollide) {
  const std::string stage = "tensors { name: 'layers.0.norm' dtype: 'F32' pins { axis: 'pp' at: ";
  EXPECT_THAT(problems_of(two_by_two(stage + "0 } }\n" + stage + "1 } }")), HasSubstr("two tensors are named"));
}

TEST(Repeats, InsideARepeat) {
  const auto file =
      read(two_by_two("repeats { variable: 'l' count: 2 spread { axis: 'pp' } "
                      "repeats { variable: 'e' count: 2 spread { axis: 'tp' } "
                      "tensors { name: '{l}.{e}' dtype: 'F32' } } tensors { name: 'n{l}' dtype: 'F32' } }"));
  std::vector<std::string> names;
  for (const LogicalTensor& tensor : file.collection.tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("n0", "0.0", "0.1", "n1", "1.0", "1.1"));
  EXPECT_THAT(file.collection.tensors[4].pins, ElementsAre(Pin{"pp", {1}}, Pin{"tp", {0}}));
}

TEST(Repeats, AProblemOfEachRepetitionIsReportedOnce) {
  const std::string text = problems_of(two_by_two(
      "repeats { variable: 'l' count: 9 tensors { name: '{l}' dtype: 'F32' shape: 5 cuts { axis: 'tp' dim: 0 } } }"));
  EXPECT_THAT(text, AllOf(HasSubstr("tensor \"0\" [5]"), HasSubstr("1 error\n")));
}

TEST(Cover, GapsNameTensorAndBox) {
  const std::string text = problems_of(two_by_two(
      "tensors { name: 'w' dtype: 'F32' shape: 4 cuts { axis: 'tp+pp' dim: 0 } pins { axis: 'tp' at: 1 } }"));
  EXPECT_THAT(
      text, AllOf(HasSubstr("x.textproto:3:1: error: tensor \"w\": no rank holds [0:1]"), HasSubstr("cannot pin it")));
  const std::string spread =
      problems_of(two_by_two("repeats { variable: 'l' count: 2 spread { axis: 'tp' } "
                             "tensors { name: '{l}' dtype: 'F32' shape: 4 cuts { axis: 'tp' dim: 0 } } }"));
  EXPECT_THAT(spread, HasSubstr("no rank holds [2:4]"));
}

TEST(Limits, AFewLinesCannotAskForAnyNumberOfTensors) {
  std::string text = "repeats { variable: 'a' count: 200000 tensors { name: 'x{a}' dtype: 'F32' } }\n";
  text += "repeats { variable: 'a' count: 200000 tensors { name: 'y{a}' dtype: 'F32' } }\n";
  EXPECT_THAT(problems_of(two_by_two(text)), AllOf(HasSubstr("more than 262144 tensors"), HasSubstr("1 error\n")));
}

}  // namespace
}  // namespace scalai::collection
