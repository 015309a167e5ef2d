#include "ptc/state/collection/internal/tensor_template.h"

#include <gmock/gmock.h>

#include "ptc/state/collection/testing/support.h"

namespace scalai::collection {
namespace tensor_template_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// One tensor "w" of 4 by 6 on line 3.
std::string problem_of(const std::string& rest) {
  return problems_of(two_by_two("tensors { name: 'w' " + rest + " }"));
}

TEST(FileTensor, NameAndDtype) {
  EXPECT_THAT(problems_of(two_by_two("tensors { shape: 4 }")),
              AllOf(HasSubstr("\"name\" is missing"), HasSubstr("\"dtype\" is missing")));
  EXPECT_THAT(problem_of("dtype: 'bf16'"), HasSubstr("x.textproto:3:28: error: unknown dtype \"bf16\""));
  EXPECT_THAT(problem_of("dtype: 'F32' kind: EXP_AVERAGE"), HasSubstr("\"kind\" takes one of PARAM, MASTER"));
}

TEST(FileTensor, ShapesThatCountingCanBear) {
  EXPECT_THAT(problem_of("dtype: 'F32' shape: [4, -1]"), HasSubstr("\"shape\" must be at least 0, found -1"));
  EXPECT_THAT(problem_of("dtype: 'F32' shape: [1, 1, 1, 1, 1, 1]"), HasSubstr("6 dimensions, at most 5"));
  EXPECT_THAT(problem_of("dtype: 'F32' shape: [4294967296, 0, 4294967296]"), HasSubstr("more than 72057594037927936"));
  EXPECT_EQ(problem_of("dtype: 'F32' shape: [4294967296, 0]"), "");
  EXPECT_THAT(problem_of("dtype: 'F32' shape: [1, 1] cuts { axis: 'tp' dim: 0 rule: PADDED multiple: 2147483648 }"
                         "cuts { axis: 'pp' dim: 1 rule: PADDED multiple: 2147483648 }"),
              HasSubstr("with its padding"));
}

TEST(FileTensor, Pins) {
  const auto pinned = [](const std::string& pins) { return problem_of("dtype: 'F32' shape: [4, 6] " + pins); };
  EXPECT_EQ(pinned("pins { axis: 'pp' at: [1, 0] } pins { axis: 'tp' at: 0 }"), "");
  EXPECT_THAT(pinned("pins { at: 0 }"), HasSubstr("\"axis\" is missing"));
  EXPECT_THAT(pinned("pins { axis: 'pp' }"), HasSubstr("\"at\" is missing"));
  EXPECT_THAT(pinned("pins { axis: 'ep' at: 0 }"), HasSubstr("unknown axis \"ep\""));
  EXPECT_THAT(pinned("pins { axis: 'pp' at: [0, 2] }"),
              HasSubstr("x.textproto:3:74: error: axis pp has the coordinates 0 to 1, found 2"));
  EXPECT_THAT(pinned("pins { axis: 'pp' at: [1, 1] }"), HasSubstr("coordinate 1 is given twice"));
  EXPECT_THAT(pinned("pins { axis: 'pp' at: 0 } pins { axis: 'pp' at: 1 }"), HasSubstr("axis \"pp\" is pinned twice"));
}

TEST(FileTensor, CoordinatesAreSorted) {
  const auto file = read(two_by_two("tensors { name: 'w' dtype: 'F32' pins { axis: 'pp' at: [1, 0] } }"));
  EXPECT_THAT(file.collection.tensors[0].pins, ElementsAre(Pin{"pp", {0, 1}}));
}

TEST(FileTensor, OneOfSeveralMeshesIsNamed) {
  const std::string meshes =
      "meshes { name: 'a' axes { name: 'tp' size: 2 } } meshes { name: 'b' axes { name: 'ep' size: 2 } } devices: "
      "'0-1'\n";
  EXPECT_THAT(problems_of(meshes + "tensors { name: 'w' dtype: 'F32' }"), HasSubstr("\"mesh\" is missing"));
  EXPECT_THAT(problems_of(meshes + "tensors { name: 'w' dtype: 'F32' mesh: 'c' }"), HasSubstr("unknown mesh \"c\""));
  EXPECT_THAT(problems_of(meshes + "tensors { name: 'w' dtype: 'F32' mesh: 'b' shape: 2 cuts { axis: 'tp' dim: 0 } }"),
              HasSubstr("unknown axis \"tp\""));
  EXPECT_EQ(read(meshes + "tensors { name: 'w' dtype: 'F32' mesh: 'b' }").collection.tensors[0].mesh, 1);
}

TEST(ShareAnAxis, LooksAtEachName) {
  EXPECT_TRUE(internal::share_an_axis("tp", "cp+tp"));
  EXPECT_TRUE(internal::share_an_axis("dp+cp", "cp"));
  EXPECT_FALSE(internal::share_an_axis("p", "cp+tp"));
}

}  // namespace tensor_template_test
}  // namespace scalai::collection
