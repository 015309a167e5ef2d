#include "ptc/plan/internal/difference.h"

#include <gmock/gmock.h>

#include <map>

#include "ptc/plan/testing/support.h"

namespace scalai::plan::internal {
namespace {

using ::testing::ElementsAre;

TEST(Difference, CutsEveryNewBoxAlongTheOldOnes) {
  Case change{.from = one_tensor({12}, cut_over("x", 0), devices({0, 1})),
              .to = one_tensor({12}, cut_over("x", 0), devices({0, 1, 2}))};
  const Difference difference = difference_of(change.input());
  ASSERT_EQ(difference.groups.size(), 1u);
  std::map<int64_t, std::pair<int64_t, std::pair<int, int>>> found;  // begin: end, holder, wanting
  for (const Overlap& overlap : difference.groups[0].overlaps) {
    EXPECT_EQ(overlap.side, Overlap::Side::kBoth);
    EXPECT_FALSE(overlap.whole);
    const auto holders = difference.old_sets[overlap.holders], wanting = difference.new_sets[overlap.wanting];
    ASSERT_EQ(holders.size(), 1u);
    ASSERT_EQ(wanting.size(), 1u);
    found[overlap.box.lo[0]] = {overlap.box.hi[0], {holders[0].value, wanting[0].value}};
  }
  const std::map<int64_t, std::pair<int64_t, std::pair<int, int>>> expected = {
      {0, {4, {0, 0}}}, {4, {6, {0, 1}}}, {6, {8, {1, 1}}}, {8, {12, {1, 2}}}};
  EXPECT_EQ(found, expected);
}

TEST(Difference, TheSameBoxIsWhole) {
  Case change{.from = one_tensor({12}, cut_over("x", 0), devices({0, 1})),
              .to = one_tensor({12}, cut_over("x", 0), devices({1, 0}))};
  const Difference difference = difference_of(change.input());
  ASSERT_EQ(difference.groups[0].overlaps.size(), 2u);
  EXPECT_TRUE(difference.groups[0].overlaps[0].whole);
}

TEST(Difference, WhatNoLivingDeviceHoldsHasNoHolders) {
  Case change{.from = one_tensor({12}, cut_over("x", 0), devices({0, 1})), .to = replicas({12}, devices({0}))};
  change.residency.lost = {DeviceId(1)};
  const Difference difference = difference_of(change.input());
  std::vector<std::string> lost;
  for (const Overlap& overlap : difference.groups[0].overlaps) {
    if (overlap.holders < 0) lost.push_back(overlap.box.str());
  }
  EXPECT_THAT(lost, ElementsAre("[6:12]"));
}

TEST(Difference, RedundantCopiesCutWhatTheyHave) {
  Case change{.from = one_tensor({12}, cut_over("x", 0), devices({0, 1})), .to = replicas({12}, devices({0}))};
  change.residency.lost = {DeviceId(1)};
  change.residency.extra = {{TensorId(0), {{8}, {10}}, HostId(3)}};
  const Difference difference = difference_of(change.input());
  std::vector<std::string> copied;
  for (const Overlap& overlap : difference.groups[0].overlaps) {
    if (overlap.copies < 0) continue;
    EXPECT_THAT(difference.copy_hosts[static_cast<size_t>(overlap.copies)], ElementsAre(HostId(3)));
    copied.push_back(overlap.box.str());
  }
  EXPECT_THAT(copied, ElementsAre("[8:10]"));
}

TEST(Difference, CountsTheBytesOfEverySide) {
  Case change{.from = replicas({6}, devices({0, 1})), .to = replicas({6}, devices({2}))};
  const Difference difference = difference_of(change.input());
  EXPECT_THAT(difference.old_bytes, ElementsAre(24));
  EXPECT_THAT(difference.new_bytes, ElementsAre(24));
}

}  // namespace
}  // namespace scalai::plan::internal
