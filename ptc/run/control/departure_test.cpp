#include "ptc/run/control/internal/departure.h"

#include <gtest/gtest.h>

#include <limits>

#include "ptc/run/control/testing/parts_fixture.h"

namespace scalai::control {
namespace departure_test {

using change::BulkFlow;
using change::Stage;
using plan::Location;
using testing::device_ids;

// NICs of 1 GB/s, of which transfers reach 0.9.
constexpr double kNic = 0.9e9;

Location g(int device) { return Location::device(DeviceId(device)); }
Location memory(int host) { return Location::host_memory(HostId(host)); }

class DepartureTest : public ::testing::Test {
 protected:
  testing::Parts parts_{testing::sized_job("a", "steps: 1000")};
  Condition& condition_ = parts_.condition;
  Departure departure_{condition_, {}};
};

TEST_F(DepartureTest, FlowsShareTheNicThatTheyLeaveBy) {
  EXPECT_NEAR(departure_.seconds(std::vector<BulkFlow>{{g(0), memory(1), 900'000'000}}), 1, 1e-9);
  EXPECT_NEAR(departure_.seconds(std::vector<BulkFlow>{{g(0), memory(1), 900'000'000}, {g(1), memory(2), 450'000'000}}),
              1.5, 1e-9);
  EXPECT_EQ(departure_.seconds(std::vector<BulkFlow>{}), 0);
}

TEST_F(DepartureTest, LinksAreAsTheyAreNow) {
  condition_.degrade({.links = {"h0.nic0.up"}, .factor = 0.5});
  EXPECT_NEAR(departure_.seconds(std::vector<BulkFlow>{{g(0), memory(1), 900'000'000}}), 2, 1e-9);
  EXPECT_NEAR(departure_.rates_of(HostId(0)).out_bytes_per_s, kNic / 2, 1);
  EXPECT_NEAR(departure_.rates_of(HostId(0)).in_bytes_per_s, kNic, 1);
  condition_.fail({.links = {"h0.nic0.up"}});
  EXPECT_EQ(departure_.seconds(std::vector<BulkFlow>{{g(0), memory(1), 1}}), std::numeric_limits<double>::infinity());
}

// 1 s of waiting, a round of 1 s from g0, a round of 2 s from g2, and a wait of 5 s.
TEST_F(DepartureTest, UntilTheMarkAfterTheLastStageThatReads) {
  const std::vector<Stage> stages = {{.wait_s = 1, .mark = 0},
                                     {.flows = {{.src = g(0), .dst = g(6), .bytes = 900'000'000}}, .mark = 1},
                                     {.flows = {{.src = g(2), .dst = g(6), .bytes = 1'800'000'000}}, .mark = 2},
                                     {.wait_s = 5}};
  EXPECT_NEAR(departure_.seconds(stages, {DeviceId(0)}), 2, 1e-9);
  EXPECT_NEAR(departure_.seconds(stages, {DeviceId(2)}), 4, 1e-9);
  EXPECT_EQ(departure_.seconds(stages, {DeviceId(4)}), 0);
}

// State staged in the memory of h0, which goes with its last device.
TEST_F(DepartureTest, TheMemoryOfAHostGoesWithIt) {
  const std::vector<Stage> stages = {{.flows = {{.src = g(0), .dst = memory(0), .bytes = 0}}},
                                     {.wait_s = 65, .mark = 0},
                                     {.flows = {{.src = memory(0), .dst = g(6), .bytes = 900'000'000}}, .mark = 1}};
  condition_.drain(device_ids({0}), 100.0);
  EXPECT_NEAR(departure_.seconds(stages, {DeviceId(0)}), 65, 1e-9) << "to the mark after the stage that copies it";
  condition_.drain(device_ids({1}), 100.0);
  EXPECT_NEAR(departure_.seconds(stages, {DeviceId(0)}), 66, 1e-9);
}

}  // namespace departure_test
}  // namespace scalai::control
