#include "ptc/cost/step/degraded_cluster.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ptc/cost/step/step_time_model.h"
#include "ptc/cost/step/testing/step.h"

namespace scalai::step {
namespace {

using collection::ParallelConfig;
using LinkShares = std::map<std::string, double>;

// Three hosts of eight GPUs; leaves of two hosts, as far as there are leaves.
cluster::Cluster three_hosts() {
  cluster::Cluster cluster;
  for (int h = 0; h < 3; ++h) {
    cluster.hosts.push_back(test_host());
    cluster.hosts.back().first_device = 8 * h;
    cluster.hosts.back().pcie_bytes_per_s = 32e9;
  }
  return cluster;
}

std::vector<DeviceId> devices(int first, int count) {
  std::vector<DeviceId> list;
  for (int i = 0; i < count; ++i) list.emplace_back(first + i);
  return list;
}

TEST(DegradedCluster, TheSlowestLinkOfAHostCountsForIt) {
  const cluster::Cluster whole = three_hosts();
  const double link = whole.hosts[0].gpu_link_bytes_per_s, nic = whole.hosts[0].nic_bytes_per_s;
  const auto left = degraded_cluster(
      whole, devices(0, 16), {{"h0.g1.up", 0.5}, {"h0.g3.down", 0.25}, {"h1.nic0.up", 0.1}, {"h2.g0.up", 0.01}});
  ASSERT_TRUE(left);
  EXPECT_DOUBLE_EQ(left->hosts[0].gpu_link_bytes_per_s, link / 4);
  EXPECT_DOUBLE_EQ(left->hosts[0].nic_bytes_per_s, nic);
  EXPECT_DOUBLE_EQ(left->hosts[1].gpu_link_bytes_per_s, link);
  EXPECT_DOUBLE_EQ(left->hosts[1].nic_bytes_per_s, nic / 10);
  EXPECT_DOUBLE_EQ(left->hosts[2].gpu_link_bytes_per_s, link) << "the job is not there";
}

TEST(DegradedCluster, OnlyWhatTheJobUsesCounts) {
  cluster::Cluster whole = three_hosts();
  const double link = whole.hosts[0].gpu_link_bytes_per_s, nic = whole.hosts[0].nic_bytes_per_s;
  const LinkShares all = {{"h0.g0.up", 0.5}, {"h0.nic0.up", 0.5}, {"h0.g0.pcie.down", 0.001}, {"storage.read", 0.1}};
  const auto inside = degraded_cluster(whole, devices(0, 8), all);
  ASSERT_TRUE(inside);
  EXPECT_DOUBLE_EQ(inside->hosts[0].gpu_link_bytes_per_s, link / 2);
  EXPECT_DOUBLE_EQ(inside->hosts[0].nic_bytes_per_s, nic) << "nothing leaves the host";
  const std::vector<DeviceId> apart = {DeviceId(0), DeviceId(8)};  // one a host
  const auto across = degraded_cluster(whole, apart, all);
  ASSERT_TRUE(across);
  EXPECT_DOUBLE_EQ(across->hosts[0].gpu_link_bytes_per_s, link);
  EXPECT_DOUBLE_EQ(across->hosts[0].nic_bytes_per_s, nic / 2);
  EXPECT_DOUBLE_EQ(across->hosts[0].pcie_bytes_per_s, 32e6);
  const auto other = degraded_cluster(whole, apart, {{"h0.nic1.up", 0.5}});  // of another GPU
  EXPECT_DOUBLE_EQ(other->hosts[0].nic_bytes_per_s, nic);
  EXPECT_DOUBLE_EQ(degraded_cluster(whole, apart, {{"h0.nic0.up", 0.5}})->hosts[0].nic_bytes_per_s, nic / 2);
}

TEST(DegradedCluster, SwitchesCountForThoseWhoGoThroughThem) {
  cluster::Cluster whole = three_hosts();
  whole.fabric = cluster::FabricKind::kLeafSpine;
  whole.leaf_hosts = 2;
  whole.oversubscription = 2;
  EXPECT_DOUBLE_EQ(degraded_cluster(whole, devices(0, 16), {{"leaf0.up", 0.5}})->oversubscription, 2) << "one leaf";
  EXPECT_DOUBLE_EQ(degraded_cluster(whole, devices(0, 24), {{"leaf0.up", 0.5}})->oversubscription, 4);
  // Uplinks keep their rates, so what is below them is less of them.
  const LinkShares nics = {{"h0.nic0.up", 0.5}, {"h1.nic0.up", 0.5}, {"h2.nic0.up", 0.5}};
  EXPECT_DOUBLE_EQ(degraded_cluster(whole, devices(0, 24), nics)->oversubscription, 1) << "halves of 2";
  EXPECT_DOUBLE_EQ(degraded_cluster(whole, devices(0, 24), {{"h0.nic0.up", 0.5}})->oversubscription, 2)
      << "leaf1 has all";
  whole.fabric = cluster::FabricKind::kStar;
  whole.backbone_bytes_per_s = 1e9;
  EXPECT_DOUBLE_EQ(degraded_cluster(whole, devices(0, 16), {{"fabric", 0.5}})->backbone_bytes_per_s, 5e8);
  EXPECT_DOUBLE_EQ(degraded_cluster(whole, devices(0, 8), {{"fabric", 0.5}})->backbone_bytes_per_s, 1e9);
}

TEST(DegradedCluster, OfPodsAndOfBlocksOfRails) {
  cluster::Cluster whole = three_hosts();  // pods of two: the third host is in pod1
  whole.fabric = cluster::FabricKind::kFatTree;
  whole.leaf_hosts = 1;
  whole.group_hosts = 2;
  const auto inside = degraded_cluster(whole, devices(0, 16), {{"pod0.up", 0.5}, {"leaf1.down", 0.5}});
  EXPECT_DOUBLE_EQ(inside->group_oversubscription, 1) << "one pod";
  EXPECT_DOUBLE_EQ(inside->oversubscription, 2);
  EXPECT_DOUBLE_EQ(degraded_cluster(whole, devices(0, 24), {{"pod0.up", 0.25}})->group_oversubscription, 4);
  EXPECT_FALSE(degraded_cluster(whole, devices(0, 24), {{"pod1.down", 0}}));
  whole.fabric = cluster::FabricKind::kRail;
  const int nics = whole.hosts[0].nics;
  const std::string other = "rail" + std::to_string(nics) + ".up";  // the first of the second block
  EXPECT_DOUBLE_EQ(degraded_cluster(whole, devices(0, 16), {{"rail0.up", 0.5}})->oversubscription, 1);
  EXPECT_DOUBLE_EQ(degraded_cluster(whole, devices(0, 24), {{other, 0.5}})->oversubscription, 2);
}

TEST(DegradedCluster, HostsOfADomainNeedTheirGpuLinksAndNoNics) {
  cluster::Cluster whole = three_hosts();
  for (size_t h = 0; h < 2; ++h) whole.hosts[h].nvlink_domain = 7;
  const std::vector<DeviceId> apart = {DeviceId(0), DeviceId(8)};  // one a host, in one domain
  EXPECT_FALSE(degraded_cluster(whole, apart, {{"h0.g0.up", 0}}));
  EXPECT_TRUE(degraded_cluster(whole, apart, {{"h0.nic0.up", 0}}));
  EXPECT_FALSE(degraded_cluster(whole, devices(0, 24), {{"h0.nic0.up", 0}}));
}

TEST(DegradedCluster, ALinkThatIsDownStopsThoseWhoNeedIt) {
  cluster::Cluster whole = three_hosts();
  whole.backbone_bytes_per_s = 1e9;
  for (const std::string link : {"h0.nic0.up", "h0.g0.pcie.up", "fabric"}) {
    EXPECT_FALSE(degraded_cluster(whole, devices(0, 16), {{link, 0}})) << link;
    EXPECT_TRUE(degraded_cluster(whole, devices(0, 8), {{link, 0}})) << link;
  }
  EXPECT_FALSE(degraded_cluster(whole, devices(0, 8), {{"h0.g7.down", 0}}));
  EXPECT_TRUE(degraded_cluster(whole, devices(0, 4), {{"h0.g7.down", 0}}));
}

// Two replicas on two hosts, without overlap: what the gradients take grows with 1 / share, and nothing else does.
TEST(AnalyticStepTime, ADegradedLinkIsTheSlowestOfTheRing) {
  const cluster::Cluster whole = three_hosts();
  const ModelShape model = test_gpt(4096, 32);
  const Training training = test_training(1);
  const ParallelConfig config = {.tp = 8, .dp = 2};
  const std::vector<DeviceId> used = devices(0, 16);
  const std::map<DeviceId, double> speed;
  const auto seconds = [&](const LinkShares& links) {
    const StepInput job{model, config, training, whole, used, speed, links};
    return AnalyticStepTime().steps_s({&job, 1})[0];
  };
  const double all = seconds({}), half = seconds({{"h1.nic0.down", 0.5}}), tenth = seconds({{"h1.nic0.down", 0.1}});
  const double twentieth = seconds({{"h1.nic0.down", 0.05}});
  EXPECT_GT(half, all);
  EXPECT_NEAR((twentieth - tenth) / (tenth - seconds({{"h1.nic0.down", 0.2}})), 2, 0.1)
      << "10 / 0.05 and 5 / 0.1 apart";
  EXPECT_EQ(seconds({{"h2.nic0.down", 0.1}}), all);
  EXPECT_GT(seconds({{"h0.g2.up", 0.5}}), all);
  EXPECT_TRUE(std::isinf(seconds({{"h1.nic0.down", 0}})));
}

}  // namespace
}  // namespace scalai::step
