#include "ptc/run/policy/fleet.h"

#include <gtest/gtest.h>

#include "ptc/cluster/cluster.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::policy {
namespace {

TEST(Fleet, CountsGpus) {
  Fleet fleet = testing::plain_fleet(2, 4);
  fleet.types.push_back({.name = "other"});
  fleet.hosts.push_back({.type = GpuType(1), .gpus = 3});
  EXPECT_EQ(fleet.gpus(), 11);
  EXPECT_EQ(fleet.gpus(GpuType(0)), 8);
  EXPECT_EQ((Placement{.type = GpuType(0), .hosts = {{HostId(0), 2}, {HostId(1), 3}}}).gpus(), 5);
}

TEST(Fleet, KindsOfAClusterAreTypesInOrderOfAppearance) {
  cluster::Cluster cluster;
  const auto add = [&](const std::string& gpu, int gpus, double price) {
    cluster::Host host;
    host.gpu.name = gpu;
    host.gpus = gpus;
    host.price_per_hour = price;
    cluster.hosts.push_back(host);
  };
  add("b", 2, 3);
  add("a", 4, 8);
  add("b", 1, 9);
  const Fleet fleet = fleet_of(cluster);
  ASSERT_EQ(fleet.types.size(), 2u);
  EXPECT_EQ(fleet.types[0].name, "b");
  EXPECT_EQ(fleet.types[0].price_per_gpu_hour, 1.5) << "of the first host";
  EXPECT_EQ(fleet.types[1].price_per_gpu_hour, 2);
  EXPECT_EQ(fleet.hosts[2].type, GpuType(0));
  EXPECT_EQ(fleet.gpus(GpuType(0)), 3);
}

}  // namespace
}  // namespace scalai::policy
