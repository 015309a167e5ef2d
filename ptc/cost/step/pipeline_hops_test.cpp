#include "ptc/cost/step/internal/pipeline_hops.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "ptc/cost/step/testing/step.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::step::internal {
namespace {

cluster::Host host_of(int gpus, int nics) {
  cluster::Host host = test_host();
  host.gpus = gpus;
  host.nics = nics;
  host.nic_bytes_per_s = 12e9;
  return host;
}

// Slow and independent: one message after the other, by the mesh's coordinates, each asks how many others share its
// NICs.
Hop counted(const collection::ParallelConfig& config, const cluster::Host& host, int stage) {
  const collection::Mesh mesh = collection::dense_mesh(config);
  struct Message {
    int from, to;
  };
  std::vector<Message> messages;
  const auto coordinate = [&](int rank, const char* axis) { return mesh.coordinate(LogicalRank(rank), axis); };
  for (int from = 0; from < mesh.size(); ++from) {
    for (int to = 0; to < mesh.size(); ++to) {
      const bool others = coordinate(from, "tp") == coordinate(to, "tp") &&
                          coordinate(from, "cp") == coordinate(to, "cp") &&
                          coordinate(from, "dp") == coordinate(to, "dp");
      if (!others || coordinate(from, "pp") != stage || coordinate(to, "pp") != (stage + 1) % config.pp) continue;
      if (from / host.gpus != to / host.gpus) messages.push_back({from, to});
    }
  }
  Hop hop{.crosses_hosts = !messages.empty()};
  const auto nic = [&](int rank) { return std::pair(rank / host.gpus, rank % host.gpus * host.nics / host.gpus); };
  for (const Message& one : messages) {
    const auto leaves = [&](const Message& other) { return nic(other.from) == nic(one.from); };
    const auto enters = [&](const Message& other) { return nic(other.to) == nic(one.to); };
    const auto sharing = std::max(std::count_if(messages.begin(), messages.end(), leaves),
                                  std::count_if(messages.begin(), messages.end(), enters));
    const double rate = host.nic_bytes_per_s / static_cast<double>(sharing);
    hop.bytes_per_s = hop.bytes_per_s == 0 ? rate : std::min(hop.bytes_per_s, rate);
  }
  return hop;
}

TEST(PipelineHops, AreThoseThatCountingMessagesFinds) {
  const unsigned seed = 11;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const auto pick = [&](std::vector<int> from) { return from[random() % from.size()]; };
  int crossing = 0, mixed = 0;
  for (int i = 0; i < 300; ++i) {
    collection::ParallelConfig config;
    config.tp = pick({1, 2, 3, 4});
    config.cp = pick({1, 1, 2});
    config.dp = pick({1, 2, 3});
    config.pp = pick({2, 3, 4, 8});
    std::shuffle(config.order.begin(), config.order.end(), random);
    const cluster::Host host = host_of(pick({2, 4, 6, 8}), pick({1, 2}));
    SCOPED_TRACE(fmt::format("{} on hosts of {} GPUs, {} cards", collection::canonical(config), host.gpus, host.nics));
    const Hardware hardware = uniform_hardware(host, config);
    cluster::Cluster cluster;
    for (int first = 0; first < config.world(); first += host.gpus) {
      cluster.hosts.push_back(host);
      cluster.hosts.back().first_device = first;
    }
    std::vector<DeviceId> devices;
    for (int d = 0; d < config.world(); ++d) devices.emplace_back(d);
    const Hardware placed = hardware_of(cluster, config, devices);
    int crosses = 0;
    for (int stage = 0; stage < config.pp; ++stage) {
      const Hop expected = counted(config, host, stage);
      for (const Hop& found : {hardware.hop(stage), placed.hop(stage)}) {
        EXPECT_EQ(found.crosses_hosts, expected.crosses_hosts) << stage;
        EXPECT_DOUBLE_EQ(found.crosses_hosts ? found.bytes_per_s : 0, expected.bytes_per_s) << stage;
      }
      crosses += expected.crosses_hosts ? 1 : 0;
    }
    crossing += crosses > 0 ? 1 : 0;
    mixed += crosses > 0 && crosses < config.pp ? 1 : 0;
  }
  EXPECT_GT(crossing, 100);
  EXPECT_GT(mixed, 20);
}

TEST(PipelineHops, GpusShareTheirNicUpToTheirOwnLimit) {
  cluster::Host host = host_of(8, 2);
  EXPECT_EQ(port_of(host, 3, 3).nic, 0);
  EXPECT_EQ(port_of(host, 3, 4).nic, 1);
  EXPECT_EQ(port_of(host, 3, 4).host, 3);
  EXPECT_FALSE(uniform_hops({.stages = 8, .stride = 1, .world = 64}, host).front().crosses_hosts);
  const auto far = [&] {
    return hops_of({.stages = 2, .stride = 8, .world = 16}, [&](int rank) { return port_of(host, rank / 8, rank % 8); })
        .front();
  };
  EXPECT_DOUBLE_EQ(far().bytes_per_s, 3e9);
  host.pcie_bytes_per_s = 2e9;
  EXPECT_DOUBLE_EQ(far().bytes_per_s, 2e9);
  host.nics = 16;  // two NICs a GPU
  host.pcie_bytes_per_s = 0;
  EXPECT_DOUBLE_EQ(far().bytes_per_s, 24e9);
  host.nic_bytes_per_s = 0;
  EXPECT_TRUE(far().crosses_hosts);
  EXPECT_DOUBLE_EQ(far().bytes_per_s, 0);  // unlimited
  EXPECT_TRUE(uniform_hops({.stages = 1, .stride = 4, .world = 64}, host).empty());
}

}  // namespace
}  // namespace scalai::step::internal
