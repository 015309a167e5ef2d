#include "ptc/cluster/islands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalai::cluster {
namespace islands_test {

using ::testing::ElementsAre;

Cluster of_hosts(int hosts, int nics, FabricKind fabric) {
  Cluster cluster;
  cluster.fabric = fabric;
  cluster.storage_read_bytes_per_s = cluster.storage_write_bytes_per_s = 1;
  for (int h = 0; h < hosts; ++h) {
    Host host;
    host.first_device = h * 2;
    host.gpus = 2;
    host.nics = nics;
    host.nic_bytes_per_s = 10;
    cluster.hosts.push_back(host);
  }
  return cluster;
}

// All links that end at the switch.
Islands without(const Cluster& cluster, const std::string& name) {
  for (const NamedSwitch& one : switches_of(cluster)) {
    if (one.name == name) return islands_of(cluster, {one.links.begin(), one.links.end()});
  }
  ADD_FAILURE() << "no switch " << name;
  return {};
}

TEST(Islands, AWholeClusterIsOne) {
  for (const FabricKind fabric : {FabricKind::kStar, FabricKind::kRail}) {
    const Islands whole = islands_of(of_hosts(3, 2, fabric), {});
    EXPECT_THAT(whole.of_host, ElementsAre(0, 0, 0));
    EXPECT_THAT(whole.reach_storage, ElementsAre(true));
  }
}

TEST(Islands, ALeafIsolatesItsHostsAndASpineTheLeaves) {
  Cluster cluster = of_hosts(6, 1, FabricKind::kLeafSpine);
  cluster.leaf_hosts = 2;
  const Islands leaf = without(cluster, "leaf1");
  EXPECT_THAT(leaf.of_host, ElementsAre(0, 0, 1, 2, 0, 0));
  EXPECT_THAT(leaf.reach_storage, ElementsAre(true, false, false));
  const Islands spine = without(cluster, "spine");
  EXPECT_THAT(spine.of_host, ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(spine.reach_storage, ElementsAre(false, false, false));
  EXPECT_THAT(islands_of(cluster, {"h4.nic0.down"}).of_host, ElementsAre(0, 0, 0, 0, 1, 0));
}

TEST(Islands, AStarHasOneSwitch) {
  Cluster cluster = of_hosts(3, 1, FabricKind::kStar);
  EXPECT_THAT(without(cluster, "fabric").of_host, ElementsAre(0, 1, 2));
  cluster.backbone_bytes_per_s = 5;
  EXPECT_THAT(islands_of(cluster, {"fabric"}).of_host, ElementsAre(0, 1, 2));
  EXPECT_THAT(islands_of(cluster, {"storage.read"}).reach_storage, ElementsAre(false));
}

TEST(Islands, APodKeepsTrafficBelowItsLeaves) {
  Cluster cluster = of_hosts(8, 1, FabricKind::kFatTree);
  cluster.leaf_hosts = 2;
  cluster.group_hosts = 4;
  EXPECT_THAT(without(cluster, "pod0").of_host, ElementsAre(0, 0, 1, 1, 2, 2, 2, 2));
  EXPECT_THAT(without(cluster, "core").of_host, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

// Half of the NICs of each host are on the other rail: no way is left for the GPUs of the first.
TEST(Islands, ARailCutsTheHostsOfItsUnit) {
  Cluster cluster = of_hosts(4, 2, FabricKind::kRail);
  cluster.group_hosts = 2;
  EXPECT_THAT(without(cluster, "rail0").of_host, ElementsAre(0, 1, 2, 2));
}

TEST(Islands, AnNvlinkDomainNeedsNoNics) {
  Cluster cluster = of_hosts(4, 1, FabricKind::kLeafSpine);
  cluster.leaf_hosts = 2;
  for (int h = 0; h < 4; ++h) cluster.hosts[static_cast<size_t>(h)].nvlink_domain = h / 2;
  EXPECT_THAT(without(cluster, "leaf0").of_host, ElementsAre(0, 0, 1, 1));
}

}  // namespace islands_test
}  // namespace scalai::cluster
