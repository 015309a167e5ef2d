#include "ptc/run/control/internal/condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/control/testing/parts_fixture.h"

namespace scalai::control {
namespace {

using testing::device_ids;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class ConditionTest : public ::testing::Test {
 protected:
  static scenario::Fail failure(const std::vector<int>& devices, const std::vector<std::string>& links = {}) {
    return {.devices = device_ids(devices), .links = links};
  }
  static scenario::Repair repair(const std::vector<int>& devices, const std::vector<std::string>& links = {}) {
    return {.devices = device_ids(devices), .links = links};
  }

  const scenario::Scenario scenario_ = testing::checked_scenario("until: \"1s\"\n" + testing::sized_job("a"));
  Condition condition_{scenario_.cluster};
};

TEST_F(ConditionTest, ADeviceIsDeadFromItsLossUntilItsRepair) {
  condition_.fail(failure({3}));
  EXPECT_TRUE(condition_.usable(DeviceId(3))) << "nobody has noticed";
  EXPECT_THAT(condition_.lose({DeviceId(3)}, 10), ElementsAre(DeviceId(3)));
  EXPECT_TRUE(condition_.dead(DeviceId(3)));
  condition_.repair(repair({3}), 20);
  EXPECT_TRUE(condition_.usable(DeviceId(3)));
}

TEST_F(ConditionTest, ARepairBetweenFailureAndLossSavesTheDeviceButNotWhatItHeld) {
  condition_.fail(failure({3}));
  condition_.repair(repair({3}), 12);
  EXPECT_THAT(condition_.lose({DeviceId(3)}, 10), IsEmpty());
  EXPECT_TRUE(condition_.usable(DeviceId(3)));
  EXPECT_TRUE(condition_.lost_since(DeviceId(3), 12)) << "put there before the repair, or at its time";
  EXPECT_FALSE(condition_.lost_since(DeviceId(3), 12.5));
}

TEST_F(ConditionTest, ADeviceThatIsUsableLosesWhatItHeld) {
  EXPECT_THAT(condition_.lose({DeviceId(3)}, 10, true), IsEmpty());
  EXPECT_TRUE(condition_.usable(DeviceId(3)));
  EXPECT_TRUE(condition_.lost_since(DeviceId(3), 10));
  EXPECT_FALSE(condition_.lost_since(DeviceId(3), 10.5));
  (void)condition_.lose({DeviceId(3)}, 20);
  EXPECT_THAT(condition_.lose({DeviceId(3)}, 30, true), ElementsAre(DeviceId(3))) << "it was dead before";
}

TEST_F(ConditionTest, AFailureAfterARepairCounts) {
  condition_.repair(repair({3}), 12);
  condition_.fail(failure({3}));
  EXPECT_THAT(condition_.lose({DeviceId(3)}, 12), ElementsAre(DeviceId(3)));
  EXPECT_TRUE(condition_.lost_since(DeviceId(3), 100));
}

TEST_F(ConditionTest, AHostIsDownWithItsLastDevice) {
  condition_.lose(std::set<DeviceId>{DeviceId(2)}, 0);
  EXPECT_THAT(condition_.hosts_down(), IsEmpty());
  condition_.set_absent(device_ids({3, 6}));
  EXPECT_THAT(condition_.hosts_down(), ElementsAre(HostId(1)));
}

TEST_F(ConditionTest, DevicesToBeLeftAreNotUsable) {
  condition_.drain(device_ids({0, 1}));
  EXPECT_TRUE(condition_.draining(DeviceId(1)));
  EXPECT_FALSE(condition_.usable(DeviceId(1)));
  EXPECT_FALSE(condition_.dead(DeviceId(1)));
  condition_.repair(repair({1}), 5);
  EXPECT_TRUE(condition_.usable(DeviceId(1)));
  EXPECT_FALSE(condition_.usable(DeviceId(0)));
}

// h0 has g0 and g1. The earlier of two deadlines counts, until a repair or the loss.
TEST_F(ConditionTest, DevicesWithADeadlineLeaveUntilItIsTakenBack) {
  condition_.drain({DeviceId(0)}, 50.0);
  condition_.drain({DeviceId(0), DeviceId(1)}, 70.0);
  condition_.drain({DeviceId(2)});
  const std::set<DeviceId> both = {DeviceId(0), DeviceId(1)};
  EXPECT_EQ(condition_.leaving({DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)}), both);
  EXPECT_EQ(condition_.deadline_of(both), 50);
  EXPECT_EQ(condition_.deadline_of({DeviceId(1)}), 70);
  EXPECT_TRUE(condition_.memory_leaves(HostId(0)));
  EXPECT_FALSE(condition_.memory_leaves(HostId(1)));
  condition_.repair({.devices = {DeviceId(1)}}, 10);
  EXPECT_EQ(condition_.leaving({DeviceId(0), DeviceId(1)}), std::set{DeviceId(0)});
  EXPECT_FALSE(condition_.memory_leaves(HostId(0)));
  condition_.lose({DeviceId(0)}, 50);
  EXPECT_TRUE(condition_.leaving({DeviceId(0)}).empty());
}

TEST_F(ConditionTest, SharesOfNominalHoldUntilTheyAreOneOrRepaired) {
  condition_.degrade({.links = {"h0.nic0.up"}, .devices = device_ids({1, 2}), .factor = 0.5});
  EXPECT_THAT(condition_.speed(), ElementsAre(Pair(DeviceId(1), 0.5), Pair(DeviceId(2), 0.5)));
  EXPECT_THAT(condition_.links(), ElementsAre(Pair("h0.nic0.up", 0.5)));
  condition_.degrade({.links = {"h0.nic0.up"}, .devices = device_ids({1}), .factor = 1});
  condition_.repair(repair({2}), 5);
  EXPECT_THAT(condition_.speed(), IsEmpty());
  EXPECT_THAT(condition_.links(), IsEmpty());
}

TEST_F(ConditionTest, OnlyARepairBringsBackALinkThatIsDown) {
  condition_.fail(failure({}, {"h0.nic0.up"}));
  const scenario::Degrade effective =
      condition_.degrade({.links = {"h0.nic0.up", "h1.nic0.up"}, .devices = {}, .factor = 1});
  EXPECT_THAT(effective.links, ElementsAre("h1.nic0.up"));
  EXPECT_THAT(condition_.links(), ElementsAre(Pair("h0.nic0.up", 0)));
  condition_.repair(repair({}, {"h0.nic0.up"}), 5);
  EXPECT_THAT(condition_.links(), IsEmpty());
}

}  // namespace
}  // namespace scalai::control
