#include "ptc/cluster/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace scalai::cluster {
namespace {

Cluster cluster_of(const std::vector<int>& gpus_per_host) {
  Cluster cluster;
  int first = 0;
  for (const int gpus : gpus_per_host) {
    Host host;
    host.first_device = first;
    host.gpus = gpus;
    host.nic_bytes_per_s = 10;
    cluster.hosts.push_back(host);
    first += gpus;
  }
  return cluster;
}

std::vector<std::string> names_of(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const NamedLink& link : links_of(cluster)) names.push_back(link.name);
  return names;
}

double bandwidth_of(const Cluster& cluster, const std::string& name) {
  for (const NamedLink& link : links_of(cluster)) {
    if (link.name == name) return link.bandwidth_bytes_per_s;
  }
  return -1;
}

TEST(Cluster, DevicesAndHostsOfUnevenHosts) {
  const Cluster cluster = cluster_of({2, 1, 3});
  EXPECT_EQ(cluster.device_count(), 6);
  const std::vector<int> hosts = {0, 0, 1, 2, 2, 2};
  const std::vector<int> locals = {0, 1, 0, 0, 1, 2};
  for (int device = 0; device < 6; ++device) {
    EXPECT_EQ(cluster.host_of(DeviceId(device)).value, hosts[static_cast<size_t>(device)]);
    EXPECT_EQ(cluster.local_index(DeviceId(device)), locals[static_cast<size_t>(device)]);
  }
  EXPECT_EQ(cluster.devices_of(HostId(2)), (std::vector<DeviceId>{DeviceId(3), DeviceId(4), DeviceId(5)}));
  EXPECT_EQ(Cluster{}.device_count(), 0);
  EXPECT_DEATH(cluster.host_of(DeviceId(6)), "device 6 of 6");
}

TEST(Cluster, RacksAreGivenOrTheLeaves) {
  Cluster cluster = cluster_of({1, 1, 1, 1, 1});
  const auto racks = [&] {
    std::vector<int> list;
    for (int host = 0; host < 5; ++host) list.push_back(cluster.rack_of(HostId(host)));
    return list;
  };
  EXPECT_EQ(racks(), (std::vector<int>{0, 0, 0, 0, 0}));
  EXPECT_EQ(cluster.rack_count(), 0) << "none are named";
  EXPECT_TRUE(cluster.hosts_of_rack(0).empty());
  cluster.rack_hosts = 2;
  EXPECT_EQ(cluster.rack_count(), 3);
  EXPECT_EQ(cluster.hosts_of_rack(1), (std::vector<HostId>{HostId(2), HostId(3)}));
  EXPECT_EQ(cluster.hosts_of_rack(2), (std::vector<HostId>{HostId(4)}));
  EXPECT_TRUE(cluster.hosts_of_rack(3).empty());
  EXPECT_EQ(racks(), (std::vector<int>{0, 0, 1, 1, 2}));
  cluster.fabric = FabricKind::kRail;
  EXPECT_EQ(racks(), (std::vector<int>{0, 0, 1, 1, 2}));
  cluster.fabric = FabricKind::kLeafSpine;
  cluster.leaf_hosts = 3;
  EXPECT_EQ(racks(), (std::vector<int>{0, 0, 0, 1, 1}));
  EXPECT_EQ(cluster.rack_count(), 2);
}

TEST(Links, AllKindsInDocumentedOrder) {
  Cluster cluster = cluster_of({1, 1});
  for (Host& host : cluster.hosts) {
    host.gpu_link_bytes_per_s = 100;
    host.pcie_bytes_per_s = 20;
    host.store_serve_bytes_per_s = 5;
    host.store_ingest_bytes_per_s = 4;
    host.copy_bytes_per_s = 3;
  }
  cluster.backbone_bytes_per_s = 7;
  cluster.storage_read_bytes_per_s = 2;
  cluster.storage_write_bytes_per_s = 1;
  cluster.machine_copy_bytes_per_s = 9;
  const std::vector<std::string> expected = {
      "h0.g0.up",        "h0.g0.down",      "h1.g0.up",      "h1.g0.down",     "h0.g0.pcie.up",   "h0.g0.pcie.down",
      "h1.g0.pcie.up",   "h1.g0.pcie.down", "h0.nic0.up",    "h0.nic0.down",   "h1.nic0.up",      "h1.nic0.down",
      "fabric",          "storage.read",    "storage.write", "h0.store.serve", "h0.store.ingest", "h1.store.serve",
      "h1.store.ingest", "h0.copy",         "h1.copy",       "machine.copy"};
  EXPECT_EQ(names_of(cluster), expected);
  EXPECT_EQ(bandwidth_of(cluster, "h1.g0.pcie.down"), 20);
  EXPECT_EQ(bandwidth_of(cluster, "storage.write"), 1);
}

TEST(Links, UnlimitedOnesDoNotExist) {
  Cluster cluster = cluster_of({2});
  cluster.hosts[0].nic_bytes_per_s = 0;
  EXPECT_TRUE(links_of(cluster).empty());
  cluster.fabric = FabricKind::kRail;
  EXPECT_TRUE(links_of(cluster).empty());
}

TEST(Links, LeafUplinksSumTheirNics) {
  Cluster cluster = cluster_of({1, 1, 1});
  cluster.fabric = FabricKind::kLeafSpine;
  cluster.leaf_hosts = 2;
  cluster.oversubscription = 4;
  cluster.hosts[0].nics = 3;
  EXPECT_EQ(bandwidth_of(cluster, "leaf0.up"), 10);  // (3 + 1) · 10 / 4
  EXPECT_EQ(bandwidth_of(cluster, "leaf1.down"), 2.5);
  EXPECT_EQ(bandwidth_of(cluster, "leaf2.up"), -1);
}

TEST(Links, RailUplinksSumOneNicOfEachHost) {
  Cluster cluster = cluster_of({2, 2, 2});
  cluster.fabric = FabricKind::kRail;
  cluster.oversubscription = 2;
  cluster.hosts[1].nics = 2;
  cluster.hosts[2].nics = 2;
  EXPECT_EQ(bandwidth_of(cluster, "rail0.up"), 15);
  EXPECT_EQ(bandwidth_of(cluster, "rail1.down"), 10);
  EXPECT_EQ(bandwidth_of(cluster, "rail2.up"), -1);
}

// An A100's own shares are in the catalogue; a kind without them has those of its generation.
TEST(Reached, IsAShareOfEachLink) {
  Host host{.gpus = 8,
            .gpu = {.name = "mine"},
            .gpu_link_bytes_per_s = 300e9,
            .pcie_bytes_per_s = 32e9,
            .nics = 8,
            .nic_bytes_per_s = 25e9};
  EXPECT_DOUBLE_EQ(reached(host).nic_bytes_per_s, 0.9 * 25e9);
  EXPECT_DOUBLE_EQ(reached(host).gpu_link_bytes_per_s, 0.78 * 300e9);
  EXPECT_DOUBLE_EQ(reached(host).pcie_bytes_per_s, 0.82 * 32e9);
  host.gpu.peak_flops_fp8 = 1e15;
  EXPECT_DOUBLE_EQ(reached(host).gpu_link_bytes_per_s, 0.822 * 300e9);
  host.gpu.link_efficiency = 0.5;
  host.gpu.network_efficiency = 0.7;
  EXPECT_DOUBLE_EQ(reached(host).gpu_link_bytes_per_s, 0.5 * 300e9);
  EXPECT_DOUBLE_EQ(reached(host).nic_bytes_per_s, 0.7 * 25e9);
  const Cluster cluster = reached(Cluster{.hosts = {host}});
  EXPECT_DOUBLE_EQ(bandwidth_of(cluster, "h0.nic3.up"), 0.7 * 25e9);
}

TEST(Reached, MeasuredRatesStay) {
  Host host{.gpus = 1, .gpu_link_bytes_per_s = 3, .pcie_bytes_per_s = 2, .nic_bytes_per_s = 1};
  for (const bool emulated : {false, true}) {
    if (emulated) host.gpu.name = "a100-80g", host.copy_bytes_per_s = 7;
    EXPECT_EQ(reached(host).gpu_link_bytes_per_s, 3);
    EXPECT_EQ(reached(host).pcie_bytes_per_s, 2);
    EXPECT_EQ(reached(host).nic_bytes_per_s, 1);
  }
}

using Switches = std::vector<std::pair<std::string, std::vector<std::string>>>;

Switches switches(const Cluster& cluster) {
  Switches found;
  for (const NamedSwitch& one : switches_of(cluster)) found.emplace_back(one.name, one.links);
  return found;
}

TEST(Switches, AStarHasOne) {
  Cluster cluster = cluster_of({1, 1});
  EXPECT_EQ(switches(cluster), (Switches{{"fabric", {"h0.nic0.up", "h0.nic0.down", "h1.nic0.up", "h1.nic0.down"}}}));
  cluster.backbone_bytes_per_s = 7;
  EXPECT_EQ(switches(cluster).front().second.back(), "fabric");
  EXPECT_TRUE(switches(cluster_of({4})).empty()) << "nothing to join";
}

TEST(Switches, LeavesHaveTheNicsOfTheirHostsAndTheSpineTheirUplinks) {
  Cluster cluster = cluster_of({1, 1, 1});
  cluster.fabric = FabricKind::kLeafSpine;
  cluster.leaf_hosts = 2;
  EXPECT_EQ(switches(cluster),
            (Switches{{"leaf0", {"h0.nic0.up", "h0.nic0.down", "h1.nic0.up", "h1.nic0.down", "leaf0.up", "leaf0.down"}},
                      {"leaf1", {"h2.nic0.up", "h2.nic0.down", "leaf1.up", "leaf1.down"}},
                      {"spine", {"leaf0.up", "leaf0.down", "leaf1.up", "leaf1.down"}}}));
  cluster.hosts[2].nic_bytes_per_s = 0;  // then its uplink has no rate either
  EXPECT_EQ(switches(cluster)[1], (Switches::value_type{"leaf1", {}}));
}

TEST(Switches, RailsHaveOneNicOfEachHost) {
  Cluster cluster = cluster_of({2, 2});
  cluster.fabric = FabricKind::kRail;
  cluster.hosts[1].nics = 2;
  EXPECT_EQ(switches(cluster),
            (Switches{{"rail0", {"h0.nic0.up", "h0.nic0.down", "h1.nic0.up", "h1.nic0.down", "rail0.up", "rail0.down"}},
                      {"rail1", {"h1.nic1.up", "h1.nic1.down", "rail1.up", "rail1.down"}},
                      {"spine", {"rail0.up", "rail0.down", "rail1.up", "rail1.down"}}}));
}

TEST(Switches, AreInOrderOfTheirNumbers) {
  Cluster cluster = cluster_of(std::vector<int>(12, 1));
  cluster.fabric = FabricKind::kLeafSpine;
  cluster.leaf_hosts = 1;
  EXPECT_EQ(switches_of(cluster)[2].name, "leaf2");
  EXPECT_EQ(switches_of(cluster)[10].name, "leaf10");
  EXPECT_EQ(switches_of(cluster)[12].name, "spine");
}

// Twelve hosts of one GPU; leaves of two, pods of six: leaf5 is in pod1.
Cluster fat_tree() {
  Cluster cluster = cluster_of(std::vector<int>(12, 1));
  cluster.fabric = FabricKind::kFatTree;
  cluster.leaf_hosts = 2;
  cluster.group_hosts = 6;
  cluster.oversubscription = 2;
  cluster.group_oversubscription = 4;
  return cluster;
}

TEST(Tiers, UplinksOfEachHaveTheSumOfTheNicsBelow) {
  const Cluster tree = fat_tree();
  EXPECT_EQ(bandwidth_of(tree, "leaf5.up"), 10);   // 2 · 10 / 2
  EXPECT_EQ(bandwidth_of(tree, "pod1.down"), 15);  // 6 · 10 / 4, not of what the leaves let through
  EXPECT_EQ(bandwidth_of(tree, "pod2.up"), -1);
  Cluster dragonfly = fat_tree();
  dragonfly.fabric = FabricKind::kDragonfly;
  EXPECT_EQ(bandwidth_of(dragonfly, "router5.up"), 10);
  EXPECT_EQ(bandwidth_of(dragonfly, "group1.up"), 15);
  dragonfly.leaf_hosts = 0;  // routers limit nothing
  EXPECT_EQ(bandwidth_of(dragonfly, "router0.up"), -1);
  EXPECT_EQ(bandwidth_of(dragonfly, "group0.up"), 15);
  Cluster rails = cluster_of({2, 2, 2, 2});
  for (Host& host : rails.hosts) host.nics = 2;
  rails.fabric = FabricKind::kRail;
  rails.group_hosts = 2;  // two blocks of two rails
  EXPECT_EQ(bandwidth_of(rails, "rail3.up"), 20);
  EXPECT_EQ(bandwidth_of(rails, "rail4.up"), -1);
  EXPECT_EQ(tiers_of(rails).front().switch_of(HostId(3), 0), 2);
}

TEST(Tiers, RacksAndGroups) {
  const Cluster tree = fat_tree();
  EXPECT_EQ(tree.rack_of(HostId(7)), 3) << "a leaf is a rack";
  EXPECT_EQ(tree.group_of(HostId(7)), 1);
  EXPECT_EQ(tree.block_sizes(), (std::vector<int>{2, 6}));
  Cluster dragonfly = tree;
  dragonfly.fabric = FabricKind::kDragonfly;
  EXPECT_EQ(dragonfly.rack_count(), 0) << "a router is none";
  dragonfly.rack_hosts = 3;
  EXPECT_EQ(dragonfly.rack_of(HostId(7)), 2);
}

TEST(Tiers, AFabricIsWideWhereNothingIsNarrowerThanTheNics) {
  Cluster cluster = fat_tree();
  EXPECT_FALSE(is_wide(cluster));
  cluster.oversubscription = 1;
  EXPECT_FALSE(is_wide(cluster)) << "its core is narrow";
  cluster.group_oversubscription = 1;
  EXPECT_TRUE(is_wide(cluster));
}

TEST(Switches, OfPodsHaveTheUplinksOfTheirLeaves) {
  Cluster tree = fat_tree();
  tree.hosts.resize(8);
  const Switches found = switches(tree);
  std::vector<std::string> names;
  for (const auto& [name, links] : found) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"leaf0", "leaf1", "leaf2", "leaf3", "pod0", "pod1", "core"}));
  EXPECT_EQ(found[3].second, (std::vector<std::string>{"h6.nic0.up", "h6.nic0.down", "h7.nic0.up", "h7.nic0.down",
                                                       "leaf3.up", "leaf3.down"}));
  EXPECT_EQ(found[5].second, (std::vector<std::string>{"leaf3.up", "leaf3.down", "pod1.up", "pod1.down"}));
  EXPECT_EQ(found[6].second, (std::vector<std::string>{"pod0.up", "pod0.down", "pod1.up", "pod1.down"}));
  tree.fabric = FabricKind::kDragonfly;
  EXPECT_EQ(switches(tree).back().first, "group1") << "global links meet in no switch";
}

TEST(NvlinkDomains, JoinHosts) {
  Cluster cluster = cluster_of({4, 4, 4, 4});
  EXPECT_NE(cluster.domain_of(HostId(0)), cluster.domain_of(HostId(1)));
  for (Host& host : cluster.hosts) host.nvlink_hosts = 2, host.price_per_hour = 3;
  for (size_t h = 0; h < 3; ++h) cluster.hosts[h].nvlink_domain = static_cast<int>(h / 2);
  EXPECT_EQ(cluster.domain_of(HostId(0)), cluster.domain_of(HostId(1)));
  EXPECT_NE(cluster.domain_of(HostId(1)), cluster.domain_of(HostId(2)));
  EXPECT_NE(cluster.domain_of(HostId(2)), cluster.domain_of(HostId(3)));
  const std::vector<Host> joined = joined_hosts({DeviceId(0), DeviceId(5), DeviceId(9)}, cluster);
  ASSERT_EQ(joined.size(), 2U);
  EXPECT_EQ(joined[0].gpus, 8);
  EXPECT_EQ(joined[0].nics, 2);
  EXPECT_EQ(joined[0].price_per_hour, 6);
  EXPECT_EQ(joined[1].gpus, 4) << "the rest of its domain is not used";
  EXPECT_EQ(scalai::cluster::joined(cluster.hosts[0]).gpus, 8);
  EXPECT_EQ(scalai::cluster::joined(Host{.gpus = 4}).gpus, 4);
}

// As the data sheets' channels add up: DGX A100 has 16 of DDR4-3200, DGX H200 16 of DDR5-4800.
TEST(Memory, GrowsHalfAsMuchAgainWithEachPcie) {
  const auto gb_per_s = [](int gpus, double pcie) {
    return memory_bytes_per_s({.gpus = gpus, .pcie_bytes_per_s = pcie}) / 1e9;
  };
  EXPECT_NEAR(gb_per_s(4, 32e9), 204.8, 1e-9);
  EXPECT_NEAR(gb_per_s(8, 32e9), 409.6, 1e-9);
  EXPECT_NEAR(gb_per_s(8, 64e9), 614.4, 1e-9);
  EXPECT_NEAR(gb_per_s(16, 16e9), 256, 20) << "DGX-2: 12 channels of DDR4-2666";
  EXPECT_EQ(gb_per_s(1, 0), gb_per_s(4, 32e9)) << "a processor at least";
  EXPECT_EQ(gb_per_s(8, 2e9), gb_per_s(8, 16e9)) << "a slow link says nothing of the memory";
}

}  // namespace
}  // namespace scalai::cluster
