#include "sim/jobs/change_fabric.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "ptc/base/random.h"
#include "ptc/cost/change/maxmin.h"
#include "ptc/cost/change/platform.h"
#include "sim/testing/iteration_fixture.h"

namespace scalai::sim {
namespace {

using jobs::Fabric;
using jobs::FlowGroup;
using jobs::Place;
using jobs::TrainingTraffic;
using policy::JobId;

std::shared_ptr<const FlowGroup> group_of(std::vector<FlowGroup::Flow> flows) {
  auto group = std::make_shared<FlowGroup>();
  group->flows = std::move(flows);
  return group;
}

std::vector<HostId> hosts(std::initializer_list<int> numbers) {
  std::vector<HostId> list;
  for (const int number : numbers) list.emplace_back(number);
  return list;
}

// Hosts of one GPU with one NIC of 10 B/s each way; nothing else is limited.
cluster::Cluster plain_cluster(int count) {
  cluster::Cluster cluster = testing::ideal_cluster(count, 1);
  for (cluster::Host& host : cluster.hosts) {
    host.gpu.name.clear();  // rates as measured
    host.nic_bytes_per_s = 10;
    host.gpu.memory_bandwidth_bytes_per_s = 0;
  }
  return cluster;
}

// Host 0 of the list to host 1.
std::shared_ptr<const FlowGroup> one_flow(int64_t bytes) {
  return group_of({{.src = {.host = 0, .gpu = 0}, .dst = {.host = 1, .gpu = 0}, .bytes = bytes}});
}

// A step of 1 s sends 2 bytes in the 0.2 s that nothing hides.
std::shared_ptr<const TrainingTraffic> traffic() {
  auto made = std::make_shared<TrainingTraffic>();
  made->flows = {{.src = {.host = 0, .gpu = 0}, .dst = {.host = 1, .gpu = 0}, .bytes = 2, .bytes_per_s = 10}};
  made->step_s = 1;
  made->exposed_s = 0.2;
  return made;
}

TEST(ChangeFabric, AGroupAloneTakesWhatItsLinksNeed) {
  const cluster::Cluster cluster = plain_cluster(3);
  const auto fabric = make_change_fabric(cluster);
  const Fabric::GroupId group = fabric->start(one_flow(100), hosts({2, 0}), 5);
  EXPECT_DOUBLE_EQ(fabric->next_end_s(), 15);
  EXPECT_TRUE(fabric->advance(14.5).empty());
  const std::vector<Fabric::End> ended = fabric->advance(20);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].group, group);
  EXPECT_DOUBLE_EQ(ended[0].at_s, 15);
  EXPECT_EQ(fabric->next_end_s(), policy::kNever);
}

// 100 bytes from 0 s, 100 more over the same NIC from 4 s: the first has 60 left, which takes it 12 s at half the
// rate; then 40 are left of the second.
TEST(ChangeFabric, TwoChangesShareANic) {
  const cluster::Cluster cluster = plain_cluster(3);
  const auto fabric = make_change_fabric(cluster);
  fabric->start(one_flow(100), hosts({0, 1}), 0);
  EXPECT_TRUE(fabric->advance(4).empty());
  fabric->start(one_flow(100), hosts({0, 2}), 4);
  EXPECT_DOUBLE_EQ(fabric->next_end_s(), 16);
  const std::vector<Fabric::End> ended = fabric->advance(100);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_DOUBLE_EQ(ended[0].at_s, 16);
  EXPECT_DOUBLE_EQ(ended[1].at_s, 20);
  EXPECT_EQ(fabric->counts().contended, 2);
}

TEST(ChangeFabric, OneThatIsCancelledLeavesTheNic) {
  const cluster::Cluster cluster = plain_cluster(3);
  const auto fabric = make_change_fabric(cluster);
  const Fabric::GroupId first = fabric->start(one_flow(100), hosts({0, 1}), 0);
  fabric->start(one_flow(100), hosts({0, 2}), 0);
  EXPECT_TRUE(fabric->advance(4).empty());
  fabric->cancel(first, 4);  // 80 left of the other
  EXPECT_DOUBLE_EQ(fabric->next_end_s(), 12);
  EXPECT_EQ(fabric->advance(12).size(), 1U);
}

// The example of change_fabric.h's equations by hand. Training draws 10 B/s for 0.2 s of each second. Beside the change
// it has 5 B/s: its steps take 1.2 s. The change has 10 - 2 / 1.2 = 8.333 B/s of the NIC: 100 bytes take 12 s instead
// of 10.
TEST(ChangeFabric, AChangeAndTrainingOnOneNic) {
  const cluster::Cluster cluster = plain_cluster(3);
  const auto fabric = make_change_fabric(cluster);
  fabric->train(policy::JobId(0), traffic(), hosts({0, 1}), 0);
  EXPECT_EQ(fabric->step_rate(policy::JobId(0)), 1);
  const uint64_t version = fabric->step_rate_version();
  fabric->start(one_flow(100), hosts({0, 2}), 0);
  EXPECT_GT(fabric->step_rate_version(), version);
  EXPECT_NEAR(fabric->step_rate(policy::JobId(0)), 1 / 1.2, 1e-12);
  EXPECT_NEAR(fabric->next_end_s(), 12, 1e-9);
  const std::vector<Fabric::End> ended = fabric->advance(100);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_NEAR(ended[0].at_s, 12, 1e-9);
  EXPECT_EQ(fabric->step_rate(policy::JobId(0)), 1);
}

// Training begins 5 s into the change: 50 bytes left at 8.333 B/s.
TEST(ChangeFabric, TrainingThatBeginsDisturbsAChangeUnderWay) {
  const cluster::Cluster cluster = plain_cluster(3);
  const auto fabric = make_change_fabric(cluster);
  fabric->start(one_flow(100), hosts({0, 2}), 0);
  fabric->advance(5);
  fabric->train(policy::JobId(0), traffic(), hosts({0, 1}), 5);
  EXPECT_NEAR(fabric->next_end_s(), 5 + 50 / (10 - 2 / 1.2), 1e-9);
  fabric->advance(8);
  fabric->stop(policy::JobId(0), 8);  // 25 left, the NIC for itself
  EXPECT_NEAR(fabric->next_end_s(), 8 + 2.5, 1e-9);
  EXPECT_EQ(fabric->step_rate(policy::JobId(0)), 1);
}

// One change after the other, and training that stops and begins again in between: each is as the first one was.
TEST(ChangeFabric, NothingIsLeftBehind) {
  const cluster::Cluster cluster = plain_cluster(3);
  const auto fabric = make_change_fabric(cluster);
  for (int round = 0; round < 3; ++round) {
    const double now_s = 100.0 * round;
    fabric->train(policy::JobId(0), traffic(), hosts({0, 1}), now_s);
    for (int change = 0; change < 2; ++change) {
      fabric->start(one_flow(100), hosts({0, 2}), now_s + 20 * change);
      EXPECT_NEAR(fabric->step_rate(policy::JobId(0)), 1 / 1.2, 1e-12);
      EXPECT_NEAR(fabric->next_end_s(), now_s + 20 * change + 12, 1e-9);
      EXPECT_EQ(fabric->advance(now_s + 20 * change + 20).size(), 1U);
      EXPECT_EQ(fabric->step_rate(policy::JobId(0)), 1);
    }
    fabric->stop(policy::JobId(0), now_s + 40);
    fabric->start(one_flow(100), hosts({0, 2}), now_s + 50);
    fabric->start(one_flow(100), hosts({0, 1}), now_s + 50);
    EXPECT_NEAR(fabric->next_end_s(), now_s + 70, 1e-9);
    EXPECT_EQ(fabric->step_rate(policy::JobId(0)), 1);
    EXPECT_EQ(fabric->advance(now_s + 100).size(), 2U);
  }
}

TEST(ChangeFabric, OtherNicsAreNotDisturbed) {
  const cluster::Cluster cluster = plain_cluster(4);
  const auto fabric = make_change_fabric(cluster);
  fabric->train(policy::JobId(0), traffic(), hosts({0, 1}), 0);
  fabric->start(one_flow(100), hosts({2, 3}), 0);
  EXPECT_EQ(fabric->step_rate(policy::JobId(0)), 1);
  EXPECT_DOUBLE_EQ(fabric->next_end_s(), 10);
  EXPECT_EQ(fabric->counts().contended, 0);
}

TEST(ChangeFabric, TimesAloneAreComputedOnce) {
  const cluster::Cluster cluster = plain_cluster(4);
  const auto fabric = make_change_fabric(cluster);
  const auto group = one_flow(70);
  EXPECT_DOUBLE_EQ(fabric->alone_s(group, hosts({0, 1})), 7);
  EXPECT_DOUBLE_EQ(fabric->alone_s(group, hosts({3, 2})), 7);
  fabric->start(group, hosts({1, 2}), 0);
  EXPECT_EQ(fabric->counts().alone_solved, 1);
  EXPECT_EQ(fabric->counts().groups, 1);
}

// The last leaf has one host, so half the way up of the others.
TEST(ChangeFabric, AShortLeafIsAnotherTime) {
  cluster::Cluster cluster = plain_cluster(5);
  cluster.fabric = cluster::FabricKind::kLeafSpine;
  cluster.leaf_hosts = 2;
  cluster.oversubscription = 2;
  const auto fabric = make_change_fabric(cluster);
  const auto group = one_flow(100);
  EXPECT_DOUBLE_EQ(fabric->alone_s(group, hosts({0, 2})), 10);
  EXPECT_DOUBLE_EQ(fabric->alone_s(group, hosts({4, 2})), 20);
}

TEST(ChangeFabric, AnEmptyGroupEndsAtOnce) {
  const cluster::Cluster cluster = plain_cluster(2);
  const auto fabric = make_change_fabric(cluster);
  fabric->start(group_of({}), {}, 3);
  EXPECT_EQ(fabric->next_end_s(), 3);
  EXPECT_EQ(fabric->advance(3).size(), 1U);
}

// Random groups at random times against one network in which every flow is there from its start: whether a group was
// alone for a while makes no difference.
TEST(ChangeFabric, IsTheNetworkOfAllFlows) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    cluster::Cluster cluster = testing::cluster_of("h100-80g", 6, {.gpus = 2, .nics = 2, .nic_bytes_per_s = 10});
    for (cluster::Host& host : cluster.hosts) host.gpu_link_bytes_per_s = host.pcie_bytes_per_s = 30;
    cluster.storage_read_bytes_per_s = 25;
    if (seed % 2 == 0) {
      cluster.fabric = cluster::FabricKind::kLeafSpine;
      cluster.leaf_hosts = 2;
      cluster.oversubscription = 3;
    }
    const change::Platform platform(cluster, change::LinkRates::kReached);
    change::MaxMinBackend network(platform.spec());
    const auto fabric = make_change_fabric(cluster);
    std::map<Fabric::GroupId, double> ends, expected;
    std::map<change::FlowId, Fabric::GroupId> group_of_flow;
    std::map<Fabric::GroupId, int> left;
    double now_s = 0;
    const auto pass = [&](double to_s) {
      for (const Fabric::End& end : fabric->advance(to_s)) ends[end.group] = end.at_s;
      while (network.now_s() < to_s && (network.next_end_s() < policy::kNever || to_s < 1e8)) {
        for (const change::FlowEnd& end : network.advance_to(to_s)) {
          if (--left[group_of_flow.at(end.flow)] == 0) expected[group_of_flow.at(end.flow)] = end.at_s;
        }
      }
      now_s = to_s;
    };
    for (int g = 0; g < 6; ++g) {
      pass(now_s + 4 * random.uniform());
      std::vector<HostId> where;
      for (int h = 0; h < 3; ++h) {
        HostId host(random.below(6));
        while (std::find(where.begin(), where.end(), host) != where.end()) host = HostId(random.below(6));
        where.push_back(host);
      }
      std::map<std::pair<jobs::Place, jobs::Place>, int64_t> flows;
      for (int f = 0; f < 4; ++f) {
        jobs::Place src{.host = static_cast<int32_t>(random.below(4)) - 1, .gpu = -1};
        if (src.host >= 0) src.gpu = static_cast<int32_t>(random.below(2));
        const Place dst{.host = static_cast<int32_t>(random.below(3)), .gpu = static_cast<int32_t>(random.below(2))};
        if (src != dst) flows[{src, dst}] = 1 + random.below(100);
      }
      std::vector<FlowGroup::Flow> list;
      for (const auto& [way, bytes] : flows) list.push_back({.src = way.first, .dst = way.second, .bytes = bytes});
      const auto group = group_of(list);
      const Fabric::GroupId id = fabric->start(group, where, now_s);
      for (const FlowGroup::Flow& flow : group->flows) {
        const auto place = [&](const Place& one) {
          if (one.host < 0) return plan::Location::storage();
          return plan::Location::device(DeviceId(where[static_cast<size_t>(one.host)].value * 2 + one.gpu));
        };
        const auto [from, to] = platform.route(place(flow.src), place(flow.dst));
        group_of_flow[network.start(from, to, static_cast<double>(flow.bytes))] = id;
        ++left[id];
      }
    }
    pass(1e9);
    ASSERT_EQ(ends.size(), expected.size());
    for (const auto& [group, at_s] : expected) EXPECT_NEAR(ends.at(group), at_s, 1e-9 * at_s) << group;
  }
}

}  // namespace
}  // namespace scalai::sim
