#include "ptc/state/collection/collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::collection {
namespace {

using tensor::Box;
using tensor::Cut;
using testing::AllOf;
using testing::HasSubstr;

LogicalTensor named(std::string name, tensor::Shape shape, tensor::Layout layout = {}, std::vector<Pin> pins = {}) {
  return {.name = std::move(name), .shape = shape, .layout = std::move(layout), .pins = std::move(pins)};
}

// tp2, pp2: w is cut over tp on stage 1, the norm is everywhere.
Collection small() {
  Collection collection{.name = "small", .meshes = {Mesh({{"tp", 2}, {"pp", 2}})}};
  collection.tensors = {named("w", {4, 3}, {{{.axis = "tp", .dim = 0}}}, {{"pp", {1}}}), named("norm", {3})};
  collection.device_of_rank = {DeviceId(4), DeviceId(5), DeviceId(6), DeviceId(7)};
  return collection;
}

std::string problem_of(const Collection& collection) { return message_of(validate(collection)); }

TEST(Collection, PiecesFollowCutsAndPins) {
  const Collection collection = small();
  EXPECT_EQ(problem_of(collection), "");
  EXPECT_TRUE(collection.pieces(TensorId(0), LogicalRank(1)).pieces.empty());
  EXPECT_EQ(collection.pieces(TensorId(0), LogicalRank(1)).elements, 0);
  EXPECT_EQ(collection.pieces(TensorId(0), LogicalRank(3)).pieces.at(0).box, Box({2, 0}, {4, 3}));
  EXPECT_EQ(collection.pieces(TensorId(1), LogicalRank(1)).pieces.at(0).box, Box({0}, {3}));
  EXPECT_FALSE(collection.holds(collection.tensors[0], LogicalRank(0)));
  EXPECT_TRUE(collection.holds(collection.tensors[0], LogicalRank(2)));
}

TEST(Collection, PinsOnSeveralAxesAndCoordinates) {
  Collection collection = small();
  collection.tensors[1].pins = {{"pp", {0, 1}}, {"tp", {0}}};
  EXPECT_TRUE(collection.holds(collection.tensors[1], LogicalRank(0)));
  EXPECT_FALSE(collection.holds(collection.tensors[1], LogicalRank(1)));
  EXPECT_TRUE(collection.holds(collection.tensors[1], LogicalRank(2)));
}

TEST(Collection, BytesOfATensor) { EXPECT_EQ(small().tensors[0].bytes(), 48); }

TEST(ValidateCollection, JobShape) {
  Collection collection = small();
  collection.device_of_rank.pop_back();
  EXPECT_THAT(problem_of(collection), HasSubstr("a mesh has 4 ranks, the job 3 devices"));
  collection = small();
  collection.device_of_rank[3] = DeviceId(4);
  EXPECT_THAT(problem_of(collection), HasSubstr("device 4 holds two ranks"));
  collection = small();
  collection.device_of_rank[3] = DeviceId();
  EXPECT_FALSE(validate(collection).ok());
  collection = small();
  collection.tensors[1].name = "w";
  EXPECT_THAT(problem_of(collection), HasSubstr("\"w\" appears twice"));
  collection = small();
  collection.tensors[1].mesh = 1;
  EXPECT_THAT(problem_of(collection), AllOf(HasSubstr("\"norm\""), HasSubstr("no mesh 1")));
}

TEST(ValidateCollection, LayoutsThatDoNotFit) {
  Collection collection = small();
  collection.tensors[0].shape = {5, 3};
  EXPECT_THAT(problem_of(collection), AllOf(HasSubstr("\"w\""), HasSubstr("5 does not divide by 2")));
}

// An axis that both cuts and pins leaves the other parts without a holder.
TEST(ValidateCollection, GapsNameTensorAndBox) {
  Collection collection = small();
  collection.tensors[0].pins = {{"tp", {0}}};
  EXPECT_THAT(problem_of(collection), HasSubstr("tensor \"w\": no rank holds [2:4, 0:3]"));
  collection.tensors[0].pins = {{"pp", {7}}};
  EXPECT_THAT(problem_of(collection), HasSubstr("tensor \"w\": no rank holds [0:4, 0:3]"));
}

TEST(ValidateCollection, ScalarsAndEmptyTensorsAreFine) {
  Collection collection = small();
  collection.tensors.push_back(named("step", {}));
  collection.tensors.push_back(named("nothing", {0, 3}));
  EXPECT_EQ(problem_of(collection), "");
}

TEST(ValidateCollection, FlatShardsOfManyBoxesCoverWithoutOverlap) {
  Collection collection{.name = "flat", .meshes = {Mesh({{"dp", 5}})}};
  collection.tensors = {
      named("w", {4, 3, 2}, {{{.axis = "dp", .dim = Cut::kFlat, .rule = tensor::SplitRule::kBalanced}}})};
  for (int device = 0; device < 5; ++device) collection.device_of_rank.push_back(DeviceId(device));
  EXPECT_EQ(problem_of(collection), "");
}

}  // namespace
}  // namespace scalai::collection
