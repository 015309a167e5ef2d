#include "ptc/plan/internal/drafts.h"

#include <gmock/gmock.h>

#include "ptc/plan/plan_draft.h"
#include "ptc/plan/testing/support.h"

namespace scalai::plan::internal {
namespace {

using ::testing::UnorderedElementsAre;

constexpr auto kCross = TransferClass::kCrossHost;

Leg leg_to(int dst, TransferClass transfer_class = kCross) {
  const DeviceId src = transfer_class == TransferClass::kKept ? DeviceId(dst) : DeviceId(0);
  return {.transfer_class = transfer_class, .src = Location::device(src), .dst = DeviceId(dst)};
}

std::vector<std::string> boxes_of(const PlanDraft& plan) {
  std::vector<std::string> boxes;
  for (const Instance& instance : plan.instances) boxes.push_back(instance.box.str());
  return boxes;
}

TEST(Drafts, EqualPatternsAndSetsHaveOneNumber) {
  Drafts drafts;
  EXPECT_EQ(drafts.pattern(leg_to(4)), drafts.pattern(leg_to(4)));
  EXPECT_NE(drafts.pattern(leg_to(4)), drafts.pattern(leg_to(5)));
  EXPECT_EQ(drafts.pattern({leg_to(4), leg_to(5)}), drafts.pattern({leg_to(4), leg_to(5)}));
  EXPECT_NE(drafts.pattern({leg_to(4)}, {DeviceId(1)}), drafts.pattern({leg_to(4)}, {DeviceId(2)}));
  EXPECT_EQ(drafts.tensors({TensorId(1), TensorId(2)}), drafts.tensors({TensorId(1), TensorId(2)}));
  EXPECT_NE(drafts.tensors({TensorId(1)}), drafts.tensors({TensorId(2)}));
}

TEST(Drafts, MergesNeighboursThatGoTheSameWay) {
  Drafts drafts;
  const int32_t set = drafts.tensors({TensorId(0)}), way = drafts.pattern(leg_to(4));
  drafts.add({{0, 0}, {2, 3}}, set, way);
  drafts.add({{2, 0}, {4, 3}}, set, way);
  drafts.add({{5, 0}, {6, 3}}, set, way);                        // does not touch
  drafts.add({{6, 0}, {7, 3}}, set, drafts.pattern(leg_to(5)));  // goes elsewhere
  PlanDraft plan;
  std::move(drafts).finish(plan);
  EXPECT_THAT(boxes_of(plan), UnorderedElementsAre("[0:4, 0:3]", "[5:6, 0:3]", "[6:7, 0:3]"));
}

TEST(Drafts, KeptBoxesStayAsTheyAre) {
  Drafts drafts;
  const int32_t set = drafts.tensors({TensorId(0)}), way = drafts.pattern(leg_to(4, TransferClass::kKept));
  drafts.add({{0}, {2}}, set, way);
  drafts.add({{2}, {4}}, set, way);
  PlanDraft plan;
  std::move(drafts).finish(plan);
  EXPECT_THAT(boxes_of(plan), UnorderedElementsAre("[0:2]", "[2:4]"));
}

TEST(Drafts, TheLastHopIsThatOfAnyPattern) {
  Drafts drafts;
  drafts.pattern(leg_to(4));
  EXPECT_EQ(drafts.last_hop(), 0);
  Leg relay = leg_to(5);
  relay.hop = 3;
  drafts.pattern({leg_to(4), relay});
  EXPECT_EQ(drafts.last_hop(), 3);
}

TEST(Drafts, RenumberingDropsWhatNobodyUses) {
  Drafts drafts;
  drafts.pattern(leg_to(9));
  drafts.tensors({TensorId(7)});
  const int32_t set = drafts.tensors({TensorId(0)}), way = drafts.pattern(leg_to(4));
  drafts.add({{0}, {2}}, set, way);
  PlanDraft plan;
  std::move(drafts).finish(plan);
  renumber(plan);
  EXPECT_EQ(plan.patterns.size(), 1);
  ASSERT_EQ(plan.patterns.legs(0).size(), 1u);
  EXPECT_EQ(plan.patterns.legs(0)[0].dst, DeviceId(4));
  EXPECT_EQ(plan.tensor_sets, (std::vector<std::vector<TensorId>>{{TensorId(0)}}));
}

}  // namespace
}  // namespace scalai::plan::internal
