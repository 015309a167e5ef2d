#include "ptc/cost/step/devices.h"

#include <gtest/gtest.h>

#include "ptc/cost/step/testing/search.h"

namespace scalai::step {
namespace {

using namespace testing;

// 4 V100, 4 A10G, 4 V100.
cluster::Cluster mixed() {
  cluster::Cluster cluster;
  for (const char* kind : {"v100-16g", "a10g-24g", "v100-16g"}) {
    cluster::Host host = host_of(4, kind);
    host.first_device = static_cast<int>(cluster.hosts.size()) * 4;
    cluster.hosts.push_back(host);
  }
  return cluster;
}

std::vector<DeviceId> ids(std::vector<int> list) { return {list.begin(), list.end()}; }

TEST(Devices, OfFasterHostsComeFirst) {
  const cluster::Cluster cluster = mixed();
  const std::vector<DeviceId> all = ids({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  // In 16 bits a V100 is ahead, in fp32 an A10G.
  EXPECT_EQ(fastest_first(all, cluster), ids({0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7}));
  EXPECT_EQ(fastest_first(all, cluster, Math::kF32), ids({4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(fastest_first(ids({9, 0, 8}), cluster), ids({9, 0, 8}));  // all alike: as given
  EXPECT_EQ(devices_for({.dp = 6}, all, cluster), ids({0, 1, 2, 3, 8, 9}));
  EXPECT_EQ(devices_for({.dp = 2}, all, cluster, Math::kF32), ids({4, 5}));
}

TEST(Devices, OfATensorParallelGroupShareAHostWhileThatIsPossible) {
  const cluster::Cluster cluster = mixed();
  const std::vector<DeviceId> usable = ids({1, 2, 3, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_EQ(devices_for({.tp = 2, .dp = 3}, usable, cluster), ids({1, 2, 8, 9, 10, 11}));
  EXPECT_EQ(devices_for({.tp = 2, .dp = 4}, usable, cluster), ids({1, 2, 8, 9, 10, 11, 5, 6}));
  EXPECT_EQ(devices_for({.tp = 2, .dp = 5}, usable, cluster), ids({1, 2, 3, 8, 9, 10, 11, 5, 6, 7}));
}

TEST(Devices, KindsAreHostsOfOneGpuAndPrice) {
  cluster::Cluster cluster = mixed();
  const std::vector<DeviceId> all = ids({0, 4, 5, 8});
  EXPECT_EQ(kinds_of_hosts(all, cluster).size(), 2u);
  cluster.hosts[2].price_per_hour = 10;
  const std::vector<cluster::Host> kinds = kinds_of_hosts(all, cluster);
  ASSERT_EQ(kinds.size(), 3u);
  EXPECT_EQ(kinds[1].gpu.name, "a10g-24g");
  EXPECT_EQ(kinds[2].price_per_hour, 10);
}

}  // namespace
}  // namespace scalai::step
