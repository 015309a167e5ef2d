#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/report/internal/placement_devices.h"

namespace scalai::report {
namespace placement_devices_test {

using policy::GpuType;
using policy::JobId;
using policy::Placement;
using ::testing::ElementsAre;

// Hosts of four GPUs.
policy::Fleet fleet_of(int hosts) {
  policy::Fleet fleet;
  fleet.types = {{"v100", 0}};
  for (int h = 0; h < hosts; ++h) fleet.hosts.push_back({GpuType(0), 4});
  return fleet;
}

Placement on(const std::vector<std::pair<int, int>>& hosts) {
  Placement placement{.type = GpuType(0), .hosts = {}};
  for (const auto& [host, gpus] : hosts) placement.hosts.push_back({HostId(host), gpus});
  return placement;
}

const JobId kA(0), kB(1), kC(2);

TEST(PlacementDevices, TheLowestThatAreFreeAndKeptWhileAJobStays) {
  const Placement one = on({{0, 1}}), two = on({{0, 2}}), three = on({{0, 3}}), both = on({{0, 2}, {1, 1}}), none;
  EXPECT_THAT(devices_of(fleet_of(2), {{0, 10, kA, &one, true, JobId()},
                                       {0, 20, kB, &two, true, JobId()},
                                       {10, 20, kA, &none, true, JobId()},
                                       {20, 30, kB, &three, true, JobId()},
                                       {20, 40, kC, &one, true, JobId()},
                                       {30, 40, kB, &both, true, JobId()},
                                       {40, 50, kB, &both, false, JobId()},
                                       {40, 50, kC, &two, true, JobId()}}),
              ElementsAre("h0:0", "h0:1-2", "", "h0:0-2", "h0:3", "h0:0-1 h1:0", "h0:0-1 h1:0", "h0:2-3"));
}

TEST(PlacementDevices, WhoComesTakesNothingThatAnotherOneKeeps) {
  const Placement one = on({{0, 1}}), two = on({{0, 2}});
  EXPECT_THAT(devices_of(fleet_of(1), {{0, 10, kA, &one, true, JobId()},
                                       {0, 10, kB, &two, true, JobId()},
                                       {10, 20, kC, &one, true, JobId()},
                                       {10, 20, kB, &two, true, JobId()},
                                       {10, 20, kA, &one, true, JobId()}}),
              ElementsAre("h0:0", "h0:1-2", "h0:3", "h0:1-2", "h0:0"));
  EXPECT_THAT(devices_of(fleet_of(1), {{0, 10, kA, &two, true, JobId()},
                                       {0, 30, kB, &one, true, JobId()},
                                       {10, 20, kA, &one, true, JobId()},
                                       {20, 30, kC, &two, true, JobId()},
                                       {20, 30, kA, &one, false, JobId()}}),
              ElementsAre("h0:0-1", "h0:2", "h0:0", "h0:1+3", "h0:0"));
}

TEST(PlacementDevices, AJobBesideAnotherHasItsDevices) {
  const Placement two = on({{0, 2}});
  EXPECT_THAT(devices_of(fleet_of(1), {{0, 50, kA, &two, true, JobId()},
                                       {10, 20, kB, &two, true, kA},
                                       {20, 30, kB, &two, false, JobId()},
                                       {30, 40, kB, &two, true, JobId()},
                                       {40, 50, kB, &two, true, kC},
                                       {40, 50, kC, &two, true, JobId()}}),
              ElementsAre("h0:0-1", "h0:0-1", "h0:0-1", "h0:2-3", "h0:2-3", "h0:2-3"))
      << "apart at 30: it has its own";
}

// Rows of a run that are left out: nobody is beside anybody.
TEST(PlacementDevices, WithoutRowsTheLeastUsedAreTaken) {
  const Placement four = on({{0, 4}}), one = on({{0, 1}});
  EXPECT_THAT(devices_of(fleet_of(1), {{0, 9, kA, &four, true, JobId()}, {5, 9, kB, &one, true, kC}}),
              ElementsAre("h0:0-3", "h0:0"));
}

}  // namespace placement_devices_test
}  // namespace scalai::report
