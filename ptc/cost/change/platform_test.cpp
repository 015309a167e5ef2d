#include "ptc/cost/change/platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalai::change {
namespace {

using plan::Location;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Four hosts of four GPUs with two NICs each; every link has a limit.
cluster::Cluster cluster_of(cluster::FabricKind fabric) {
  cluster::Cluster cluster{.name = "test",
                           .fabric = fabric,
                           .leaf_hosts = 2,
                           .storage_read_bytes_per_s = 5e9,
                           .storage_write_bytes_per_s = 6e9};
  for (int h = 0; h < 4; ++h) {
    cluster.hosts.push_back({.first_device = 4 * h,
                             .gpus = 4,
                             .gpu = {.memory_bandwidth_bytes_per_s = 100e9},
                             .gpu_link_bytes_per_s = 40e9,
                             .pcie_bytes_per_s = 20e9,
                             .nics = 2,
                             .nic_bytes_per_s = 10e9,
                             .store_serve_bytes_per_s = 8e9,
                             .store_ingest_bytes_per_s = 4e9});
  }
  return cluster;
}

Location gpu(int device) { return Location::device(DeviceId(device)); }
Location memory(int host) { return Location::host_memory(HostId(host)); }

class PlatformTest : public ::testing::Test {
 protected:
  // Names of the links from one place to another, in order.
  std::vector<std::string> route(Location src, Location dst, bool src_process = false, bool dst_process = false) const {
    const auto [from, to] = platform_->route(src, dst, src_process, dst_process);
    const NetworkSpec& spec = platform_->spec();
    std::vector<std::string> names;
    for (const int link : spec.endpoints[static_cast<size_t>(from)].up)
      names.push_back(spec.links[static_cast<size_t>(link)].name);
    for (const int link : spec.endpoints[static_cast<size_t>(to)].down)
      names.push_back(spec.links[static_cast<size_t>(link)].name);
    return names;
  }
  void build(cluster::FabricKind fabric) {
    cluster_ = cluster_of(fabric);
    platform_ = std::make_unique<Platform>(cluster_);
  }

  cluster::Cluster cluster_;
  std::unique_ptr<Platform> platform_;
};

TEST_F(PlatformTest, OnOneHost) {
  build(cluster::FabricKind::kStar);
  EXPECT_THAT(route(gpu(1), gpu(1)), ElementsAre("h0.g1.copy"));
  EXPECT_THAT(route(gpu(1), gpu(3)), ElementsAre("h0.g1.up", "h0.g3.down"));
  EXPECT_THAT(route(gpu(5), memory(1)), ElementsAre("h1.g1.pcie.up", "h1.store.ingest"));
  EXPECT_THAT(route(memory(1), gpu(5)), ElementsAre("h1.store.serve", "h1.g1.pcie.down"));
  EXPECT_THAT(route(memory(1), memory(1)), ElementsAre("h1.store.serve", "h1.store.ingest"));
}

TEST_F(PlatformTest, ProcessesPassTheStoreBy) {
  build(cluster::FabricKind::kStar);
  EXPECT_THAT(route(memory(1), memory(1), true), ElementsAre("h1.store.ingest"));
  EXPECT_THAT(route(memory(1), memory(1), false, true), ElementsAre("h1.store.serve"));
  EXPECT_THAT(route(memory(1), gpu(5), true), ElementsAre("h1.g1.pcie.down"));
  EXPECT_THAT(route(memory(0), memory(2), false, true), ElementsAre("h0.store.serve", "h0.nic0.up", "h2.nic0.down"));
}

TEST_F(PlatformTest, AcrossAStar) {
  build(cluster::FabricKind::kStar);
  EXPECT_THAT(route(gpu(0), gpu(4)), ElementsAre("h0.g0.pcie.up", "h0.nic0.up", "h1.nic0.down", "h1.g0.pcie.down"));
  EXPECT_THAT(route(gpu(2), gpu(7)), ElementsAre("h0.g2.pcie.up", "h0.nic1.up", "h1.nic1.down", "h1.g3.pcie.down"));
  EXPECT_THAT(route(gpu(3), memory(2)), ElementsAre("h0.g3.pcie.up", "h0.nic1.up", "h2.nic1.down", "h2.store.ingest"));
  EXPECT_THAT(route(memory(2), gpu(3)), ElementsAre("h2.store.serve", "h2.nic1.up", "h0.nic1.down", "h0.g3.pcie.down"));
  EXPECT_THAT(route(Location::storage(), gpu(4)), ElementsAre("storage.read", "h1.nic0.down", "h1.g0.pcie.down"));
  EXPECT_THAT(route(gpu(4), Location::storage()), ElementsAre("h1.g0.pcie.up", "h1.nic0.up", "storage.write"));
}

TEST_F(PlatformTest, ABackboneIsCrossedOnceInAnyDirection) {
  cluster_ = cluster_of(cluster::FabricKind::kStar);
  cluster_.backbone_bytes_per_s = 12e9;
  platform_ = std::make_unique<Platform>(cluster_);
  EXPECT_THAT(route(gpu(0), gpu(4)),
              ElementsAre("h0.g0.pcie.up", "h0.nic0.up", "fabric", "h1.nic0.down", "h1.g0.pcie.down"));
  EXPECT_THAT(route(memory(0), memory(1)),
              ElementsAre("h0.store.serve", "h0.nic0.up", "fabric", "h1.nic0.down", "h1.store.ingest"));
  EXPECT_THAT(route(Location::storage(), gpu(4)),
              ElementsAre("storage.read", "fabric", "h1.nic0.down", "h1.g0.pcie.down"));
  EXPECT_THAT(route(gpu(4), Location::storage()),
              ElementsAre("h1.g0.pcie.up", "h1.nic0.up", "fabric", "storage.write"));
  EXPECT_THAT(route(gpu(0), gpu(1)), ElementsAre("h0.g0.up", "h0.g1.down"));
}

TEST_F(PlatformTest, EmulatedDevicesEndWithWhatTheirHostAndMachineCopy) {
  cluster_ = cluster_of(cluster::FabricKind::kStar);
  cluster_.hosts[1].copy_bytes_per_s = 3e9;
  cluster_.machine_copy_bytes_per_s = 5e9;
  platform_ = std::make_unique<Platform>(cluster_);
  EXPECT_THAT(route(gpu(5), gpu(5)), ElementsAre("h1.g1.copy", "h1.copy", "machine.copy"));
  EXPECT_THAT(route(gpu(4), gpu(5)), ElementsAre("h1.g0.up", "h1.g1.down", "h1.copy", "machine.copy"));
  EXPECT_THAT(route(gpu(4), gpu(0)),
              ElementsAre("h1.g0.pcie.up", "h1.nic0.up", "h0.nic0.down", "h0.g0.pcie.down", "machine.copy"));
  EXPECT_THAT(route(memory(1), gpu(5), true), ElementsAre("h1.g1.pcie.down", "h1.copy", "machine.copy"));
  EXPECT_THAT(route(memory(1), memory(1), true), ElementsAre("h1.store.ingest", "h1.copy", "machine.copy"));
  EXPECT_THAT(route(gpu(4), Location::storage()), ElementsAre("h1.g0.pcie.up", "h1.nic0.up", "storage.write"));
}

TEST_F(PlatformTest, LeafAndSpine) {
  build(cluster::FabricKind::kLeafSpine);
  EXPECT_THAT(route(gpu(0), gpu(4)), ElementsAre("h0.g0.pcie.up", "h0.nic0.up", "h1.nic0.down", "h1.g0.pcie.down"));
  EXPECT_THAT(route(gpu(0), gpu(8)),
              ElementsAre("h0.g0.pcie.up", "h0.nic0.up", "leaf0.up", "leaf1.down", "h2.nic0.down", "h2.g0.pcie.down"));
  EXPECT_THAT(route(memory(3), memory(0)),
              ElementsAre("h3.store.serve", "h3.nic0.up", "leaf1.up", "leaf0.down", "h0.nic0.down", "h0.store.ingest"));
  EXPECT_THAT(route(Location::storage(), gpu(8)),
              ElementsAre("storage.read", "leaf1.down", "h2.nic0.down", "h2.g0.pcie.down"));
  EXPECT_THAT(route(gpu(8), Location::storage()),
              ElementsAre("h2.g0.pcie.up", "h2.nic0.up", "leaf1.up", "storage.write"));
}

TEST_F(PlatformTest, Rails) {
  build(cluster::FabricKind::kRail);
  EXPECT_THAT(route(gpu(0), gpu(9)), ElementsAre("h0.g0.pcie.up", "h0.nic0.up", "h2.nic0.down", "h2.g1.pcie.down"));
  EXPECT_THAT(route(gpu(0), gpu(11)),
              ElementsAre("h0.g0.pcie.up", "h0.nic0.up", "rail0.up", "rail1.down", "h2.nic1.down", "h2.g3.pcie.down"));
  EXPECT_THAT(route(gpu(3), memory(2)), ElementsAre("h0.g3.pcie.up", "h0.nic1.up", "h2.nic1.down", "h2.store.ingest"));
}

TEST_F(PlatformTest, UnlimitedLinksDoNotExist) {
  cluster_ = {.name = "free", .hosts = {{.first_device = 0, .gpus = 2}, {.first_device = 2, .gpus = 2}}};
  platform_ = std::make_unique<Platform>(cluster_);
  EXPECT_THAT(platform_->spec().links, IsEmpty());
  EXPECT_THAT(route(gpu(0), gpu(3)), IsEmpty());
  EXPECT_THAT(route(gpu(0), gpu(0)), IsEmpty());
  EXPECT_EQ(platform_->link("h0.nic0.up"), -1);
}

TEST_F(PlatformTest, LinksAreFoundByTheNamesOfScenarios) {
  for (const auto fabric : {cluster::FabricKind::kStar, cluster::FabricKind::kLeafSpine, cluster::FabricKind::kRail}) {
    build(fabric);
    for (const cluster::NamedLink& link : cluster::links_of(cluster_)) {
      const int index = platform_->link(link.name);
      ASSERT_GE(index, 0) << link.name;
      EXPECT_EQ(platform_->spec().links[static_cast<size_t>(index)].bandwidth_bytes_per_s, link.bandwidth_bytes_per_s);
    }
  }
  EXPECT_EQ(platform_->link("h9.nic0.up"), -1);
}

TEST_F(PlatformTest, CopiesOnADeviceReadAndWriteItsMemory) {
  build(cluster::FabricKind::kStar);
  EXPECT_EQ(platform_->spec().links[static_cast<size_t>(platform_->link("h2.g1.copy"))].bandwidth_bytes_per_s, 50e9);
}

TEST_F(PlatformTest, PlacesKnowTheirHost) {
  build(cluster::FabricKind::kStar);
  EXPECT_EQ(platform_->host_of(gpu(7)), HostId(1));
  EXPECT_EQ(platform_->host_of(memory(3)), HostId(3));
  EXPECT_FALSE(platform_->host_of(Location::storage()).valid());
}

TEST(PlatformRates, AreNominalOrReached) {
  cluster::Cluster cluster = cluster_of(cluster::FabricKind::kStar);
  for (cluster::Host& host : cluster.hosts) host.gpu.name = "mine";
  const Platform nominal(cluster), reached(cluster, LinkRates::kReached);
  const auto rate = [](const Platform& platform, const char* link) {
    return platform.spec().links[static_cast<size_t>(platform.link(link))].bandwidth_bytes_per_s;
  };
  EXPECT_EQ(rate(nominal, "h0.nic0.up"), 10e9);
  EXPECT_DOUBLE_EQ(rate(reached, "h0.nic0.up"), 0.9 * 10e9);
  EXPECT_DOUBLE_EQ(rate(reached, "h3.g3.pcie.down"), 0.82 * 20e9);
  EXPECT_EQ(rate(reached, "h0.store.serve"), 8e9) << "a store's rate is what it does";
}

// Flows between two hosts' memories: each on the NIC of the GPU whose state it is.
TEST_F(PlatformTest, MemoriesUseAllNics) {
  build(cluster::FabricKind::kStar);
  const auto nics = [&](int lane) {
    const auto [from, to] = platform_->route(memory(0), memory(2), false, true, lane);
    std::vector<std::string> names;
    for (const int link : platform_->spec().endpoints[static_cast<size_t>(to)].down)
      names.push_back(platform_->spec().links[static_cast<size_t>(link)].name);
    return names;
  };
  EXPECT_THAT(nics(0), ElementsAre("h2.nic0.down"));
  EXPECT_THAT(nics(1), ElementsAre("h2.nic1.down"));
  EXPECT_THAT(nics(2), ElementsAre("h2.nic0.down")) << "it has two";
}

// Of 204.8 GB/s: 12 and 4. An H200 host has two processors with 307.2 GB/s each, three times as much.
TEST(PlatformRates, AStoreIsAsFastAsItsHostsMemory) {
  const StoreShares shares = {.serve = 12 / 204.8, .ingest = 4 / 204.8};
  const StoreRates a6000 = store_rates({.gpus = 4, .pcie_bytes_per_s = 32e9}, shares);
  const StoreRates h200 = store_rates({.gpus = 8, .pcie_bytes_per_s = 64e9}, shares);
  EXPECT_DOUBLE_EQ(a6000.serve_bytes_per_s, 12e9);
  EXPECT_DOUBLE_EQ(a6000.ingest_bytes_per_s, 4e9);
  EXPECT_DOUBLE_EQ(h200.serve_bytes_per_s, 36e9);
  EXPECT_DOUBLE_EQ(h200.ingest_bytes_per_s, 12e9);
  EXPECT_EQ(store_rates({.gpus = 8, .pcie_bytes_per_s = 64e9, .store_serve_bytes_per_s = 5}, shares).serve_bytes_per_s,
            5);
}

TEST(PlatformRates, HostsWithoutStoreRatesHaveThoseOfTheStrategy) {
  cluster::Cluster cluster = cluster_of(cluster::FabricKind::kStar);
  cluster.hosts[1].store_serve_bytes_per_s = cluster.hosts[1].store_ingest_bytes_per_s = 0;
  cluster.hosts[1].gpu.name = "mine";  // transfers reach 0.82 of its PCIe, which says nothing of its memory
  const Platform platform(cluster, LinkRates::kReached, {.serve = 0.03, .ingest = 0.02});
  const auto rate = [&](const char* link) {
    return platform.spec().links[static_cast<size_t>(platform.link(link))].bandwidth_bytes_per_s;
  };
  EXPECT_EQ(rate("h0.store.serve"), 8e9);
  const double memory = cluster::memory_bytes_per_s(cluster.hosts[1]);
  EXPECT_DOUBLE_EQ(rate("h1.store.serve"), 0.03 * memory);
  EXPECT_DOUBLE_EQ(rate("h1.store.ingest"), 0.02 * memory);
  EXPECT_EQ(Platform(cluster).link("h1.store.serve"), -1);
}

// Eight hosts: leaves of two, pods of four.
TEST_F(PlatformTest, FatTreesAreClimbedAsFarAsNeeded) {
  cluster_ = cluster_of(cluster::FabricKind::kFatTree);
  cluster_.group_hosts = 4;
  for (int h = 4; h < 8; ++h) {
    cluster_.hosts.push_back(cluster_.hosts.front());
    cluster_.hosts.back().first_device = 4 * h;
  }
  platform_ = std::make_unique<Platform>(cluster_);
  EXPECT_THAT(route(gpu(0), gpu(4)), ElementsAre("h0.g0.pcie.up", "h0.nic0.up", "h1.nic0.down", "h1.g0.pcie.down"));
  EXPECT_THAT(route(gpu(0), gpu(8)),
              ElementsAre("h0.g0.pcie.up", "h0.nic0.up", "leaf0.up", "leaf1.down", "h2.nic0.down", "h2.g0.pcie.down"));
  EXPECT_THAT(route(memory(7), memory(0)), ElementsAre("h7.store.serve", "h7.nic0.up", "leaf3.up", "pod1.up",
                                                       "pod0.down", "leaf0.down", "h0.nic0.down", "h0.store.ingest"));
  EXPECT_THAT(route(Location::storage(), memory(7)),
              ElementsAre("storage.read", "pod1.down", "leaf3.down", "h7.nic0.down", "h7.store.ingest"));
  cluster_.fabric = cluster::FabricKind::kDragonfly;
  cluster_.leaf_hosts = 0;
  platform_ = std::make_unique<Platform>(cluster_);
  EXPECT_THAT(route(memory(0), memory(3)),
              ElementsAre("h0.store.serve", "h0.nic0.up", "h3.nic0.down", "h3.store.ingest"));
  EXPECT_THAT(route(memory(0), memory(4)), ElementsAre("h0.store.serve", "h0.nic0.up", "group0.up", "group1.down",
                                                       "h4.nic0.down", "h4.store.ingest"));
}

TEST_F(PlatformTest, RailsOfABlockOfHosts) {
  cluster_ = cluster_of(cluster::FabricKind::kRail);
  cluster_.group_hosts = 2;
  platform_ = std::make_unique<Platform>(cluster_);
  EXPECT_THAT(route(gpu(0), gpu(4)), ElementsAre("h0.g0.pcie.up", "h0.nic0.up", "h1.nic0.down", "h1.g0.pcie.down"));
  EXPECT_THAT(route(gpu(0), gpu(8)),
              ElementsAre("h0.g0.pcie.up", "h0.nic0.up", "rail0.up", "rail2.down", "h2.nic0.down", "h2.g0.pcie.down"))
      << "the same rail of another block";
}

TEST_F(PlatformTest, GpuLinksJoinTheHostsOfADomain) {
  cluster_ = cluster_of(cluster::FabricKind::kStar);
  for (size_t h = 0; h < 2; ++h) cluster_.hosts[h].nvlink_domain = 0;
  platform_ = std::make_unique<Platform>(cluster_);
  EXPECT_THAT(route(gpu(1), gpu(6)), ElementsAre("h0.g1.up", "h1.g2.down"));
  EXPECT_THAT(route(gpu(1), gpu(8)), ElementsAre("h0.g1.pcie.up", "h0.nic0.up", "h2.nic0.down", "h2.g0.pcie.down"));
  EXPECT_THAT(route(memory(0), gpu(4)), ElementsAre("h0.store.serve", "h0.nic0.up", "h1.nic0.down", "h1.g0.pcie.down"))
      << "memory has no GPU link";
}

}  // namespace
}  // namespace scalai::change
