#include "ptc/cost/step/hardware.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/kernels.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::step {
namespace {

using collection::Mesh;
using collection::ParallelConfig;

cluster::Host host_with(int gpus, const std::string& kind = "a100-80g") {
  cluster::Host host;
  host.gpus = gpus;
  host.gpu = *cluster::find_gpu_kind(kind);
  host.gpu_link_bytes_per_s = host.gpu.link_bytes_per_s;
  host.nics = gpus;
  host.nic_bytes_per_s = 25e9;
  host.price_per_hour = 3.0 * gpus;
  return host;
}

cluster::Cluster cluster_of(int hosts, int gpus) {
  cluster::Cluster cluster;
  for (int h = 0; h < hosts; ++h) {
    cluster.hosts.push_back(host_with(gpus));
    cluster.hosts.back().first_device = h * gpus;
  }
  return cluster;
}

std::vector<DeviceId> first_devices(int count) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < count; ++i) devices.emplace_back(i);
  return devices;
}

// Slow and independent: goes through all ranks with the mesh's own coordinates.
Group enumerated(const Mesh& mesh, const std::vector<std::string>& axes, int gpus) {
  std::map<std::string, std::map<int, int>> members;  // coordinates outside, host, ranks
  int ranks = 1;
  for (const std::string& axis : axes) ranks *= mesh.axis_size(axis);
  for (int rank = 0; rank < mesh.size(); ++rank) {
    std::string outside;
    for (const collection::MeshAxis& axis : mesh.axes()) {
      if (std::find(axes.begin(), axes.end(), axis.name) == axes.end()) {
        outside += std::to_string(mesh.coordinate(LogicalRank(rank), axis.name)) + ",";
      }
    }
    ++members[outside][rank / gpus];
  }
  Group group{.ranks = ranks, .per_host = ranks};
  for (const auto& [outside, hosts] : members) {
    group.over_hosts = std::max(group.over_hosts, static_cast<int>(hosts.size()));
    for (const auto& [host, count] : hosts) group.per_host = std::min(group.per_host, count);
  }
  return group;
}

void expect_same(const Group& found, const Group& expected, const char* name) {
  EXPECT_EQ(found.ranks, expected.ranks) << name;
  EXPECT_EQ(found.per_host, expected.per_host) << name;
  EXPECT_EQ(found.hosts(), expected.hosts()) << name;
}

void expect_groups(const Hardware& hardware, const ParallelConfig& config, int gpus) {
  const Mesh dense = collection::dense_mesh(config), expert = collection::expert_mesh(config);
  expect_same(hardware.tp, enumerated(dense, {"tp"}, gpus), "tp");
  expect_same(hardware.cp, enumerated(dense, {"cp"}, gpus), "cp");
  expect_same(hardware.dp, enumerated(dense, {"cp", "dp"}, gpus), "dp");
  expect_same(hardware.ep, enumerated(expert, {"ep"}, gpus), "ep");
  expect_same(hardware.etp, enumerated(expert, {"etp"}, gpus), "etp");
  expect_same(hardware.edp, enumerated(expert, {"edp"}, gpus), "edp");
  bool crosses = false;
  for (int rank = 0; rank < dense.size(); ++rank) {
    for (int other = 0; other < dense.size(); ++other) {
      bool neighbours = dense.coordinate(LogicalRank(other), "pp") == dense.coordinate(LogicalRank(rank), "pp") + 1;
      for (const char* axis : {"tp", "cp", "dp"}) {
        neighbours =
            neighbours && dense.coordinate(LogicalRank(rank), axis) == dense.coordinate(LogicalRank(other), axis);
      }
      crosses = crosses || (neighbours && rank / gpus != other / gpus);
    }
  }
  EXPECT_EQ(hardware.pipeline_crosses_hosts, crosses);
}

TEST(Hardware, GroupsAreThoseThatGoingThroughAllRanksFinds) {
  const unsigned seed = 20240607;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto pick = [&](std::vector<int> from) { return from[random() % from.size()]; };
  for (int i = 0; i < 300; ++i) {
    ParallelConfig config;
    config.tp = pick({1, 2, 3, 4, 6, 8, 12});
    config.cp = pick({1, 1, 2, 3});
    config.dp = pick({1, 2, 3, 4, 5});
    config.pp = pick({1, 2, 3, 4});
    std::shuffle(config.order.begin(), config.order.end(), random);
    config.etp = config.tp % 2 == 0 ? pick({1, 2}) : 1;
    config.ep = config.cp * config.dp % 2 == 0 ? pick({1, 2}) : 1;
    if (config.tp * config.cp * config.dp % (config.etp * config.ep) != 0) continue;
    const int gpus = pick({1, 2, 3, 4, 6, 7, 8});
    SCOPED_TRACE(collection::canonical(config) + " on hosts of " + std::to_string(gpus));
    expect_groups(uniform_hardware(host_with(gpus), config), config, gpus);
    const int hosts = (config.world() + gpus - 1) / gpus;
    expect_groups(hardware_of(cluster_of(hosts, gpus), config, first_devices(config.world())), config, gpus);
  }
}

TEST(Hardware, AGroupThatStraddlesHostsSpeaksForThoseThatDoNot) {
  struct Case {
    int tp, dp, gpus, per_host, hosts;
  };
  for (const Case& c : {Case{4, 3, 6, 2, 2},     // 0–3, 4 5 | 6 7, 8–11
                        Case{3, 8, 8, 1, 2},     // 6 7 | 8
                        Case{6, 4, 8, 2, 2},     // 6 7 | 8–11, 12–15 | 16 17
                        Case{6, 2, 4, 2, 2},     // 0–3 | 4 5, 6 7 | 8–11
                        Case{8, 3, 3, 1, 4},     // 8 | 9–11 | 12–14 | 15
                        Case{4, 2, 8, 4, 1},     // none does
                        Case{4, 1, 6, 4, 1}}) {  // the second is not there
    ParallelConfig config;
    config.tp = c.tp;
    config.dp = c.dp;
    SCOPED_TRACE(collection::canonical(config) + " on hosts of " + std::to_string(c.gpus));
    const int hosts = (config.world() + c.gpus - 1) / c.gpus;
    for (const Hardware& hardware : {uniform_hardware(host_with(c.gpus), config),
                                     hardware_of(cluster_of(hosts, c.gpus), config, first_devices(config.world()))}) {
      EXPECT_EQ(hardware.tp.ranks, c.tp);
      EXPECT_EQ(hardware.tp.per_host, c.per_host);
      EXPECT_EQ(hardware.tp.hosts(), c.hosts);
    }
  }
}

TEST(Hardware, LinksArePerGpu) {
  cluster::Host host = host_with(8);
  host.nics = 4;
  ParallelConfig config;
  config.dp = 16;
  const Hardware hardware = uniform_hardware(host, config);
  EXPECT_EQ(hardware.gpus_per_host, 8);
  EXPECT_DOUBLE_EQ(hardware.link_bytes_per_s, 300e9);
  EXPECT_DOUBLE_EQ(hardware.host_nic_bytes_per_s, 100e9);
  EXPECT_DOUBLE_EQ(hardware.nic_bytes_per_s, 12.5e9);
  EXPECT_DOUBLE_EQ(hardware.price_per_gpu_hour, 3);
  EXPECT_DOUBLE_EQ(hardware.dp.fabric_share, 1);
  EXPECT_EQ(hardware.stages.size(), 1u);
  EXPECT_EQ(hardware.dp.hosts(), 2);
}

TEST(Hardware, TheSlowestDeviceOfAStageIsItsPace) {
  cluster::Cluster cluster = cluster_of(2, 4);
  ParallelConfig config;
  config.dp = 4;
  config.pp = 2;
  const std::vector<DeviceId> devices = first_devices(8);
  EXPECT_EQ(hardware_of(cluster, config, devices).stages.size(), 1u);

  const Hardware degraded = hardware_of(cluster, config, devices, {{DeviceId(5), 0.5}});
  ASSERT_EQ(degraded.stages.size(), 2u);
  EXPECT_DOUBLE_EQ(degraded.stage(0).speed, 1);
  EXPECT_DOUBLE_EQ(degraded.stage(1).speed, 0.5);

  cluster.hosts[0].gpu = *cluster::find_gpu_kind("v100-32g");
  const Hardware mixed = hardware_of(cluster, config, devices);
  ASSERT_EQ(mixed.stages.size(), 2u);
  EXPECT_EQ(mixed.stage(0).gpu.name, "v100-32g");
  EXPECT_EQ(mixed.stage(1).gpu.name, "a100-80g");
  // A kind without a name, and the order of devices, do not matter.
  cluster.hosts[0].gpu.name.clear();
  EXPECT_DOUBLE_EQ(hardware_of(cluster, config, devices).stage(0).gpu.peak_flops, 125e12);
}

// An L40S is slower than an A100 in 16 bits, though its peak is higher; in FP8, which only it has, it is faster. Its
// memory is slower whatever the math.
TEST(Hardware, TheSlowestOfAStageIsThatOfTheMathAndItsMemoryMayBeAnothers) {
  cluster::Cluster cluster = cluster_of(2, 4);
  cluster.hosts[1].gpu = *cluster::find_gpu_kind("l40s-48g");
  ParallelConfig config;
  config.dp = 8;
  for (const std::vector<int>& order : {std::vector{0, 1, 2, 3, 4, 5, 6, 7}, std::vector{7, 6, 5, 4, 3, 2, 1, 0}}) {
    const std::vector<DeviceId> devices(order.begin(), order.end());
    const Hardware bf16 = hardware_of(cluster, config, devices, {}, Math::kBF16);
    EXPECT_EQ(bf16.stage(0).gpu.name, "l40s-48g");
    EXPECT_EQ(bf16.stage(0).memory_bytes_per_s, 0);
    const Hardware fp8 = hardware_of(cluster, config, devices, {}, Math::kFP8);
    EXPECT_EQ(fp8.stage(0).gpu.name, "a100-80g");
    EXPECT_DOUBLE_EQ(fp8.stage(0).memory_bytes_per_s, 864e9 * 0.8);
    EXPECT_DOUBLE_EQ(rates_of(fp8.stage(0), Math::kFP8).bytes_per_s, 864e9 * 0.8);
    // A degraded A100 is slower than an L40S, whose memory still is not as fast as three quarters of an A100's.
    const Hardware degraded = hardware_of(cluster, config, devices, {{DeviceId(1), 0.75}}, Math::kBF16);
    EXPECT_DOUBLE_EQ(degraded.stage(0).speed, 0.75);
    EXPECT_DOUBLE_EQ(degraded.stage(0).memory_bytes_per_s, 864e9 * 0.8);
  }
}

TEST(Hardware, ThePeakIsThatOfAllGpusNotOfTheSlowest) {
  cluster::Cluster cluster = cluster_of(2, 4);
  ParallelConfig config;
  config.dp = 4;
  config.pp = 2;
  config.order = {"tp", "cp", "pp", "dp"};  // both stages on both hosts
  const std::vector<DeviceId> devices = first_devices(8);
  EXPECT_DOUBLE_EQ(peak_flops(hardware_of(cluster, config, devices), config, Math::kBF16), 8 * 312e12);
  cluster.hosts[1].gpu = *cluster::find_gpu_kind("h100-80g");
  const Hardware mixed = hardware_of(cluster, config, devices, {{DeviceId(0), 0.5}});
  EXPECT_EQ(mixed.stages.size(), 2u);
  EXPECT_DOUBLE_EQ(peak_flops(mixed, config, Math::kBF16), 4 * 312e12 + 4 * 989.5e12);
  EXPECT_DOUBLE_EQ(peak_flops(mixed, config, Math::kFP8), 4 * 312e12 + 4 * 1979e12);
  // By hand, without counts: a stage is of one kind.
  Hardware by_hand;
  by_hand.stages = {{.gpu = cluster.hosts[0].gpu}, {.gpu = cluster.hosts[1].gpu}};
  EXPECT_DOUBLE_EQ(peak_flops(by_hand, config, Math::kBF16), 4 * 312e12 + 4 * 989.5e12);
}

// Four hosts with 50 GB/s each, in a ring. Each sends on through a backbone; of two below a leaf one does.
TEST(Hardware, AFabricNarrowerThanTheNicsLeavesWhatCrossesIt) {
  cluster::Cluster cluster = cluster_of(4, 2);
  ParallelConfig config;
  const auto share = [&](int dp) {
    config.dp = dp;
    return hardware_of(cluster, config, first_devices(dp)).dp.fabric_share;
  };
  cluster.backbone_bytes_per_s = 50e9;
  EXPECT_DOUBLE_EQ(share(8), 0.25);
  EXPECT_DOUBLE_EQ(share(2), 1) << "one host sends nothing";

  cluster.fabric = cluster::FabricKind::kLeafSpine;
  cluster.leaf_hosts = 2;
  cluster.oversubscription = 4;  // 100 / 4 for the 50 of one host
  EXPECT_DOUBLE_EQ(share(8), 0.5);
  EXPECT_DOUBLE_EQ(share(4), 1) << "one leaf";
  cluster.oversubscription = 2;
  EXPECT_DOUBLE_EQ(share(8), 1);
  cluster.leaf_hosts = 1;
  EXPECT_DOUBLE_EQ(share(8), 0.5);

  cluster.fabric = cluster::FabricKind::kFatTree;  // leaves of two, pods of two: both are left, the narrower decides
  cluster.leaf_hosts = cluster.group_hosts = 2;
  cluster.oversubscription = 4;
  cluster.group_oversubscription = 8;
  EXPECT_DOUBLE_EQ(share(8), 0.25);
  cluster.group_hosts = 4;
  EXPECT_DOUBLE_EQ(share(8), 0.5) << "one pod";
  cluster.fabric = cluster::FabricKind::kRail;  // within a block each stays on its rail
  EXPECT_DOUBLE_EQ(share(8), 1);
  cluster.group_hosts = 2;
  EXPECT_DOUBLE_EQ(share(8), 0.5);
}

// Rings that leave the leaf with each step, tokens that go to all alike, and stages a leaf each.
TEST(Hardware, WhatCrossesAnUplinkDependsOnWhoTalksToWhom) {
  cluster::Cluster cluster = cluster_of(4, 2);
  cluster.fabric = cluster::FabricKind::kLeafSpine;
  cluster.leaf_hosts = 2;
  cluster.oversubscription = 4;  // 25 GB/s
  ParallelConfig config;
  config.tp = 2, config.dp = 2, config.pp = 2;
  std::vector<DeviceId> apart;  // dp over two leaves
  for (const int device : {0, 1, 4, 5, 2, 3, 6, 7}) apart.emplace_back(device);
  // Two rings a host, two hosts a leaf, 25 GB/s a rank: 100.
  EXPECT_DOUBLE_EQ(hardware_of(cluster, config, apart).dp.fabric_share, 0.25);
  EXPECT_DOUBLE_EQ(hardware_of(cluster, config, apart).hop(0).bytes_per_s, 25e9) << "the card's";
  const Hardware along = hardware_of(cluster, config, first_devices(8));
  EXPECT_DOUBLE_EQ(along.dp.fabric_share, 1);
  EXPECT_DOUBLE_EQ(along.hop(0).bytes_per_s, 25e9 / 4) << "four messages over one uplink";

  config = {};
  config.dp = 8, config.ep = 8;  // of six others beyond the host four are beyond the leaf: 4 · 25 · 4 / 6
  EXPECT_DOUBLE_EQ(hardware_of(cluster, config, first_devices(8)).ep.fabric_share, 25 / (4 * 25 * 4 / 6.0));
}

// Four hosts of two GPUs, two of them a domain: what lies in a domain is one host to every model of a step.
TEST(Hardware, AnNvlinkDomainIsOneHost) {
  cluster::Cluster cluster = cluster_of(4, 2);
  cluster::Cluster merged = cluster_of(2, 4);
  for (size_t h = 0; h < 4; ++h) {
    cluster.hosts[h].nvlink_hosts = 2;
    cluster.hosts[h].nvlink_domain = static_cast<int>(h / 2);
  }
  for (const ParallelConfig& config : {ParallelConfig{.tp = 4, .dp = 2}, ParallelConfig{.tp = 2, .pp = 2, .dp = 2},
                                       ParallelConfig{.pp = 8}, ParallelConfig{.tp = 2, .pp = 4}}) {
    const Hardware joined = hardware_of(cluster, config, first_devices(8));
    const Hardware one = hardware_of(merged, config, first_devices(8));
    EXPECT_EQ(joined.tp.per_host, one.tp.per_host);
    EXPECT_EQ(joined.dp.per_host, one.dp.per_host);
    EXPECT_EQ(joined.pipeline_crosses_hosts, one.pipeline_crosses_hosts);
    EXPECT_EQ(joined.gpus_per_host, 4);
    EXPECT_DOUBLE_EQ(joined.nic_bytes_per_s, one.nic_bytes_per_s);
    EXPECT_DOUBLE_EQ(joined.host_nic_bytes_per_s, one.host_nic_bytes_per_s);
    for (int stage = 0; stage < config.pp; ++stage) {
      EXPECT_EQ(joined.hop(stage).crosses_hosts, one.hop(stage).crosses_hosts) << stage;
      EXPECT_DOUBLE_EQ(joined.hop(stage).bytes_per_s, one.hop(stage).bytes_per_s) << stage;
    }
  }
}

TEST(Hardware, PeaksFallBackOnWhatTheGpuHas) {
  const cluster::GpuKind a100 = *cluster::find_gpu_kind("a100-80g"), h100 = *cluster::find_gpu_kind("h100-80g");
  EXPECT_DOUBLE_EQ(peak_flops(a100, Math::kBF16), 312e12);
  EXPECT_DOUBLE_EQ(peak_flops(a100, Math::kFP8), 312e12);
  EXPECT_DOUBLE_EQ(peak_flops(h100, Math::kFP8), 1979e12);
  EXPECT_DOUBLE_EQ(peak_flops(a100, Math::kTF32), 156e12);
  cluster::GpuKind unknown;
  unknown.peak_flops = 160;
  EXPECT_DOUBLE_EQ(peak_flops(unknown, Math::kTF32), 10);
  EXPECT_DOUBLE_EQ(peak_flops(unknown, Math::kF32), 10);
}

TEST(Hardware, SharesOfAKindComeBeforeTypicalOnes) {
  cluster::GpuKind gpu;
  gpu.peak_flops = 1;
  const Efficiency typical = efficiency_of(gpu, Math::kBF16);
  EXPECT_GT(typical.matrix, 0.5);
  EXPECT_GT(typical.memory, 0.5);
  gpu.peak_flops_fp8 = 2;
  EXPECT_LT(efficiency_of(gpu, Math::kFP8).matrix, typical.matrix);
  gpu.matrix_efficiency = 0.4;
  gpu.matrix_efficiency_fp8 = 0.3;
  gpu.memory_efficiency = 0.6;
  gpu.link_efficiency = 0.5;
  gpu.network_efficiency = 0.45;
  const Efficiency given = efficiency_of(gpu, Math::kBF16);
  EXPECT_DOUBLE_EQ(given.matrix, 0.4);
  EXPECT_DOUBLE_EQ(efficiency_of(gpu, Math::kFP8).matrix, 0.3);
  EXPECT_DOUBLE_EQ(given.memory, 0.6);
  EXPECT_DOUBLE_EQ(given.link, 0.5);
  EXPECT_DOUBLE_EQ(given.network, 0.45);
  for (const std::string& name : cluster::gpu_kind_names()) {
    for (const Math math : {Math::kBF16, Math::kFP8, Math::kTF32}) {
      const Efficiency share = efficiency_of(*cluster::find_gpu_kind(name), math);
      for (const double one : {share.matrix, share.memory, share.link, share.network}) {
        EXPECT_GT(one, 0) << name;
        EXPECT_LE(one, 1) << name;
      }
    }
  }
}

}  // namespace
}  // namespace scalai::step
