#include "ptc/cost/change/bulk_flows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/plan/testing/support.h"

namespace scalai::change {
namespace bulk_flows_test {

using plan::Location;
using ::testing::ElementsAre;

// Four ranks; the tensors are cut, whole, or on one rank of tp.
collection::Collection mixed() {
  return plan::collection_of(
      {{"tp", 2}, {"dp", 2}}, plan::devices({0, 1, 2, 3}),
      {plan::tensor_of("cut", {2, 100}, {plan::cut_over("tp", 0)}),
       plan::tensor_of("alike", {2, 100}, {plan::cut_over("tp", 0)}), plan::tensor_of("whole", {2, 100}, {}),
       plan::tensor_of("short", {10}, {}), plan::tensor_of("pinned", {10}, {}, {{"tp", {1}}})});
}

std::vector<std::tuple<Location, Location, int64_t>> list(const std::vector<BulkFlow>& flows) {
  std::vector<std::tuple<Location, Location, int64_t>> all;
  for (const BulkFlow& flow : flows) all.emplace_back(flow.src, flow.dst, flow.bytes);
  return all;
}

Location gpu(int index) { return Location::device(DeviceId(index)); }
Location memory(int host) { return Location::host_memory(HostId(host)); }

constexpr int64_t kFirst = 4 * (100 + 100 + 200 + 10), kSecond = kFirst + 4 * 10;  // bytes by rank of tp

TEST(BulkFlows, StateOfEachRank) {
  EXPECT_THAT(state_bytes_of_ranks(mixed()), ElementsAre(kFirst, kSecond, kFirst, kSecond));
}

TEST(BulkFlows, AHubWithoutNewDevicesHandsOver) {
  const cluster::Cluster cluster = plan::cluster_of(4, 2);
  const auto on = [&](const std::vector<DeviceId>& devices) { return plan::replicas({64}, devices); };
  EXPECT_EQ(target_hub(HostId(0), on(plan::devices({1, 4})), cluster), HostId(0));
  EXPECT_EQ(target_hub(HostId(0), on(plan::devices({6, 5, 4})), cluster), HostId(2));
  EXPECT_FALSE(target_hub(HostId(), on(plan::devices({4})), cluster).valid());
}

// Cut over an axis of two in one mesh, of one in the other.
TEST(BulkFlows, AlikeTensorsHaveOneMesh) {
  const collection::LogicalTensor tensor = plan::tensor_of("a", {8}, {plan::cut_over("x", 0)});
  collection::Collection two = plan::collection_of({{"x", 2}}, plan::devices({0, 1}), {tensor, tensor});
  two.meshes.push_back(collection::Mesh({{"x", 1}, {"y", 2}}));
  two.tensors[1].mesh = 1;
  EXPECT_THAT(state_bytes_of_ranks(two), ElementsAre(4 * (4 + 8), 4 * (4 + 8)));
}

// Of data-parallel replicas the first that lives; tensor-parallel ranks all stage what they hold.
TEST(BulkFlows, OneReplicaIsStaged) {
  const cluster::Cluster cluster = plan::cluster_of(2, 2);
  EXPECT_THAT(list(stage_flows(mixed(), {}, cluster, HostId(), false)),
              ElementsAre(std::tuple(gpu(0), memory(0), kFirst), std::tuple(gpu(1), memory(0), kSecond)));
  EXPECT_THAT(list(stage_flows(mixed(), {DeviceId(0)}, cluster, HostId(), false)),
              ElementsAre(std::tuple(gpu(1), memory(0), kSecond), std::tuple(gpu(2), memory(1), kFirst)));
  EXPECT_EQ(stage_flows(mixed(), {}, cluster, HostId(), true).size(), 4u);
  EXPECT_THAT(list(stage_flows(mixed(), {}, cluster, HostId(1), false)),
              ElementsAre(std::tuple(gpu(0), memory(1), kFirst), std::tuple(gpu(1), memory(1), kSecond)));
}

TEST(BulkFlows, EveryRankLoads) {
  const cluster::Cluster cluster = plan::cluster_of(2, 2);
  EXPECT_THAT(list(load_flows(mixed(), cluster, HostId())),
              ElementsAre(std::tuple(memory(0), gpu(0), kFirst), std::tuple(memory(0), gpu(1), kSecond),
                          std::tuple(memory(1), gpu(2), kFirst), std::tuple(memory(1), gpu(3), kSecond)));
}

}  // namespace bulk_flows_test
}  // namespace scalai::change
