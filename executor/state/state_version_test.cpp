#include "executor/state/state_version.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace scalai::executor::state {
namespace state_version_test {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kSnapshots = int64_t{1} << 40;
constexpr int64_t kLive = int64_t{1} << 60;

struct Example {
  StateVersion version;
  int64_t wire;
  std::string text;
};

// Every kind with the ends of its range, in order.
const std::vector<Example>& examples() {
  static const std::vector<Example> list = {
      {StateVersion::staged(), -2, "staged state"},
      {StateVersion::epoch(0), 0, "epoch 0"},
      {StateVersion::epoch(3), 3, "epoch 3"},
      {StateVersion::epoch(kSnapshots - 1), kSnapshots - 1, "epoch 1099511627775"},
      {StateVersion::initial(), kSnapshots, "initial state"},
      {StateVersion::snapshot(1), kSnapshots + 1, "snapshot 1"},
      {StateVersion::snapshot(17), kSnapshots + 17, "snapshot 17"},
      {StateVersion::snapshot(kLive - kSnapshots - 1), kLive - 1, "snapshot 1152920405095219199"},
      {StateVersion::live(0), kLive, "live copy 0"},
      {StateVersion::live(kLargest - kLive), kLargest, "live copy 8070450532247928831"},
  };
  return list;
}

TEST(StateVersion, EveryKindKeepsItsWireNumberAndComesBackFromIt) {
  for (const Example& one : examples()) {
    EXPECT_EQ(one.version.wire(), one.wire) << one.text;
    EXPECT_EQ(one.version.str(), one.text);
    const absl::StatusOr<StateVersion> back = StateVersion::from_wire(one.wire);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, one.version) << one.text;
  }
}

TEST(StateVersion, OrderIsThatOfWireNumbers) {
  for (const Example& a : examples()) {
    for (const Example& b : examples()) {
      EXPECT_EQ(a.version < b.version, a.wire < b.wire) << a.text << ", " << b.text;
      EXPECT_EQ(a.version == b.version, a.wire == b.wire) << a.text << ", " << b.text;
    }
  }
}

TEST(StateVersion, OtherNumbersAreRefusedByName) {
  for (const int64_t number : {int64_t{-1}, int64_t{-3}, int64_t{-77}, -kSnapshots, -kLargest, -kLargest - 1}) {
    const absl::Status status = StateVersion::from_wire(number).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << number;
    EXPECT_EQ(message_of(status).find(std::to_string(number) + " is no state version"), 0u) << status;
  }
}

TEST(StateVersionDeathTest, NumbersOutsideAKindAreBugs) {
  const testing::ExitedWithCode bug(70);
  EXPECT_EXIT(StateVersion::epoch(-1), bug, "CHECK failed.*-1");
  EXPECT_EXIT(StateVersion::epoch(kSnapshots), bug, "CHECK failed.*1099511627776");
  EXPECT_EXIT(StateVersion::snapshot(0), bug, "CHECK failed.*0");
  EXPECT_EXIT(StateVersion::snapshot(kLive - kSnapshots), bug, "CHECK failed");
  EXPECT_EXIT(StateVersion::live(-1), bug, "CHECK failed.*-1");
  EXPECT_EXIT(StateVersion::live(kLargest - kLive + 1), bug, "CHECK failed");
}

}  // namespace state_version_test
}  // namespace scalai::executor::state
