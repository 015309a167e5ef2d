#include "sim/jobs/planned/fabric.h"

#include <gtest/gtest.h>

#include "sim/jobs/planned/testing/support.h"

namespace scalai::jobs {
namespace {

using Flow = FlowGroup::Flow;

std::shared_ptr<const FlowGroup> group_of(std::vector<Flow> flows) {
  auto group = std::make_shared<FlowGroup>();
  group->flows = std::move(flows);
  return group;
}

Place gpu(int host, int local) { return {.host = host, .gpu = local}; }
Place memory(int host) { return {.host = host, .gpu = -1}; }

// Hosts of two GPUs and one NIC: NIC 10 B/s, PCIe 20, GPU links 50, store 5 in and 4 out, storage 8 out.
cluster::Cluster cluster() {
  cluster::Cluster made = testing::cluster_of({.hosts = 4, .gpus = 2, .nics = 1, .nic_bytes_per_s = 10});
  for (cluster::Host& host : made.hosts) {
    host.gpu.name.clear();  // rates as measured
    host.pcie_bytes_per_s = 20;
    host.gpu_link_bytes_per_s = 50;
    host.store_ingest_bytes_per_s = 5;
    host.store_serve_bytes_per_s = 4;
  }
  made.storage_read_bytes_per_s = 8;
  return made;
}

const std::vector<HostId> kHosts = {HostId(2), HostId(0), HostId(3)};

double alone(const cluster::Cluster& where, std::vector<Flow> flows) {
  return make_unshared_fabric(where)->alone_s(group_of(std::move(flows)), kHosts);
}

TEST(UnsharedFabric, TheHottestLinkDecides) {
  const cluster::Cluster one = cluster();
  EXPECT_DOUBLE_EQ(alone(one, {{.src = gpu(0, 0), .dst = gpu(0, 1), .bytes = 100}}), 2);   // GPU link
  EXPECT_DOUBLE_EQ(alone(one, {{.src = gpu(0, 0), .dst = gpu(1, 1), .bytes = 100}}), 10);  // NIC
  EXPECT_DOUBLE_EQ(alone(one, {{.src = gpu(0, 0), .dst = memory(0), .bytes = 100}}), 20);  // into the store
  EXPECT_DOUBLE_EQ(alone(one, {{.src = memory(0), .dst = gpu(0, 0), .bytes = 100}}), 25);  // out of it
  EXPECT_DOUBLE_EQ(alone(one, {{.src = memory(0), .dst = gpu(0, 0), .bytes = 100, .src_process = true}}), 5);
  EXPECT_DOUBLE_EQ(alone(one, {{.src = {}, .dst = gpu(0, 0), .bytes = 100}}), 12.5);      // storage
  EXPECT_DOUBLE_EQ(alone(one, {{.src = gpu(0, 0), .dst = gpu(0, 0), .bytes = 100}}), 0);  // copies are free here
}

TEST(UnsharedFabric, DirectionsAndNicsAreApart) {
  const cluster::Cluster one = cluster();
  EXPECT_DOUBLE_EQ(alone(one, {{.src = gpu(0, 0), .dst = gpu(1, 0), .bytes = 100},
                               {.src = gpu(1, 0), .dst = gpu(0, 0), .bytes = 100}}),
                   10);
  EXPECT_DOUBLE_EQ(alone(one, {{.src = gpu(0, 0), .dst = gpu(1, 0), .bytes = 100},
                               {.src = gpu(0, 1), .dst = gpu(2, 0), .bytes = 100}}),
                   20);
  cluster::Cluster two = one;
  for (cluster::Host& host : two.hosts) host.nics = 2;
  EXPECT_DOUBLE_EQ(alone(two, {{.src = gpu(0, 0), .dst = gpu(1, 0), .bytes = 100},
                               {.src = gpu(0, 1), .dst = gpu(2, 0), .bytes = 100}}),
                   10);
}

// Hosts 2 and 3 are one leaf: 20 B/s over 4 between the leaves.
TEST(UnsharedFabric, LeavesAreCrossedOrNot) {
  cluster::Cluster leaves = cluster();
  leaves.fabric = cluster::FabricKind::kLeafSpine;
  leaves.leaf_hosts = 2;
  leaves.oversubscription = 4;
  EXPECT_DOUBLE_EQ(alone(leaves, {{.src = gpu(0, 0), .dst = gpu(2, 0), .bytes = 100}}), 10);
  EXPECT_DOUBLE_EQ(alone(leaves, {{.src = gpu(0, 0), .dst = gpu(1, 0), .bytes = 100}}), 20);
  cluster::Cluster star = cluster();
  star.backbone_bytes_per_s = 4;
  EXPECT_DOUBLE_EQ(alone(star, {{.src = gpu(0, 0), .dst = gpu(2, 0), .bytes = 100}}), 25);
}

// Each host is a leaf, hosts 2 and 3 are a pod: a leaf has 5 B/s up, a pod 20 / 10 = 2.
TEST(UnsharedFabric, PodsAreCrossedOrNot) {
  cluster::Cluster tree = cluster();
  tree.fabric = cluster::FabricKind::kFatTree;
  tree.leaf_hosts = 1;
  tree.group_hosts = 2;
  tree.oversubscription = 2;
  tree.group_oversubscription = 10;
  EXPECT_DOUBLE_EQ(alone(tree, {{.src = gpu(0, 0), .dst = gpu(2, 0), .bytes = 100}}), 20);
  EXPECT_DOUBLE_EQ(alone(tree, {{.src = gpu(0, 0), .dst = gpu(1, 0), .bytes = 100}}), 50);
  EXPECT_DOUBLE_EQ(alone(tree, {{.src = {}, .dst = gpu(1, 0), .bytes = 100}}), 50) << "storage is above the core";
}

TEST(UnsharedFabric, GpuLinksJoinTheHostsOfADomain) {
  cluster::Cluster joined = cluster();
  for (const size_t h : {2, 3}) joined.hosts[h].nvlink_domain = 1;
  EXPECT_DOUBLE_EQ(alone(joined, {{.src = gpu(0, 0), .dst = gpu(2, 0), .bytes = 100}}), 2);
  EXPECT_DOUBLE_EQ(alone(joined, {{.src = gpu(0, 0), .dst = gpu(1, 0), .bytes = 100}}), 10);
  EXPECT_DOUBLE_EQ(alone(joined, {{.src = gpu(0, 0), .dst = memory(2), .bytes = 100, .dst_process = true}}), 10);
}

TEST(UnsharedFabric, GroupsDoNotDisturbEachOther) {
  const cluster::Cluster one = cluster();
  const auto fabric = make_unshared_fabric(one);
  const auto group = group_of({{.src = gpu(0, 0), .dst = gpu(1, 0), .bytes = 100}});
  const Fabric::GroupId first = fabric->start(group, kHosts, 0);
  const Fabric::GroupId second = fabric->start(group, kHosts, 5);
  const Fabric::GroupId third = fabric->start(group, kHosts, 5);
  fabric->cancel(third, 6);
  EXPECT_EQ(fabric->next_end_s(), 10);
  const std::vector<Fabric::End> ended = fabric->advance(20);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].group, first);
  EXPECT_EQ(ended[0].at_s, 10);
  EXPECT_EQ(ended[1].group, second);
  EXPECT_EQ(ended[1].at_s, 15);
  EXPECT_EQ(fabric->next_end_s(), policy::kNever);
  EXPECT_EQ(fabric->step_rate(policy::JobId(0)), 1);
}

}  // namespace
}  // namespace scalai::jobs
