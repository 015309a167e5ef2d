#include "apps/exec/calibration_plans.h"

#include <gtest/gtest.h>

#include <map>

#include "ptc/base/status.h"
#include "ptc/plan/planner.h"

namespace scalai::apps {
namespace {

cluster::Cluster cluster_of(int hosts, int gpus) {
  cluster::Cluster cluster{.name = "test"};
  for (int host = 0; host < hosts; ++host) cluster.hosts.push_back({.first_device = host * gpus, .gpus = gpus});
  return cluster;
}

int64_t state_bytes(const collection::Collection& side) {
  int64_t bytes = 0;
  for (const collection::LogicalTensor& tensor : side.tensors) bytes += tensor.bytes();
  return bytes;
}

plan::Plan plan_of(const CalibrationPlan& one, const cluster::Cluster& cluster) {
  EXPECT_EQ(message_of(collection::validate(one.from)), "");
  EXPECT_EQ(message_of(collection::validate(one.to)), "");
  const collection::Residency nobody_lost;
  auto plan = plan::make_plan({one.from, one.to, cluster, nobody_lost, {}});
  EXPECT_EQ(message_of(plan.status()), "");
  std::map<DeviceId, int> boxes;
  plan->for_each_operation([&](const plan::Operation& operation) { ++boxes[operation.dst]; });
  for (const auto& [device, count] : boxes) EXPECT_EQ(count, kCalibrationBoxes) << "on g" << device.value;
  return *std::move(plan);
}

constexpr int64_t kBytes = int64_t{16} << 20;  // divides well among all numbers of hosts below

struct Shape {
  int hosts, gpus;
};
constexpr Shape kShapes[] = {{2, 1}, {2, 2}, {4, 1}, {4, 2}, {8, 1}};

TEST(CalibrationPlans, APairMovesOneDevicesStateBetweenHosts) {
  for (const auto& [hosts, gpus] : kShapes) {
    const cluster::Cluster cluster = cluster_of(hosts, gpus);
    const CalibrationPlan one = pair_plan(cluster, HostId(1), HostId(0), kBytes);
    EXPECT_EQ(one.series, "pair");
    EXPECT_EQ(one.name, "h1 to h0");
    const plan::Plan plan = plan_of(one, cluster);
    EXPECT_EQ(plan.src_devices(), std::vector{DeviceId(gpus)});
    EXPECT_EQ(plan.dst_devices(), std::vector{DeviceId(0)});
    EXPECT_EQ(plan.bytes().cross_host, kBytes);
    EXPECT_EQ(plan.bytes().moved(), kBytes);
  }
}

TEST(CalibrationPlans, AShiftMovesAllToTheNextHost) {
  for (const auto& [hosts, gpus] : kShapes) {
    const cluster::Cluster cluster = cluster_of(hosts, gpus);
    const plan::Plan plan = plan_of(shift_plan(cluster, kBytes), cluster);
    EXPECT_EQ(plan.bytes().cross_host, hosts * kBytes);
    EXPECT_EQ(plan.bytes().moved(), hosts * kBytes);
    EXPECT_EQ(plan.bytes().kept, 0);
  }
}

TEST(CalibrationPlans, AnExchangeIsOfTwoHostsEach) {
  for (const auto& [hosts, gpus] : kShapes) {
    const cluster::Cluster cluster = cluster_of(hosts, gpus);
    const plan::Plan plan = plan_of(exchange_plan(cluster, kBytes), cluster);
    EXPECT_EQ(plan.bytes().cross_host, hosts / 2 * kBytes);
    EXPECT_EQ(plan.bytes().same_device, hosts / 2 * kBytes);
    EXPECT_EQ(plan.bytes().same_host, 0);
  }
}

TEST(CalibrationPlans, InsideAHostEachDeviceGetsAnothersState) {
  const Shape shapes[] = {{1, 2}, {2, 2}, {1, 4}, {4, 2}};
  for (const auto& [hosts, gpus] : shapes) {
    const cluster::Cluster cluster = cluster_of(hosts, gpus);
    const plan::Plan plan = plan_of(same_host_plan(cluster, kBytes), cluster);
    EXPECT_EQ(plan.bytes().same_host, gpus * kBytes);
    EXPECT_EQ(plan.bytes().moved(), gpus * kBytes);
  }
}

TEST(CalibrationPlans, InsideTwoDevicesHalfOfEachIsCopied) {
  const Shape shapes[] = {{2, 1}, {1, 2}, {3, 1}, {4, 2}};
  for (const auto& [hosts, gpus] : shapes) {
    const cluster::Cluster cluster = cluster_of(hosts, gpus);
    const CalibrationPlan one = same_device_plan(cluster, kBytes);
    EXPECT_EQ(state_bytes(one.from), kBytes);
    const plan::Plan plan = plan_of(one, cluster);
    EXPECT_EQ(plan.bytes().same_device, kBytes);
    EXPECT_EQ(plan.bytes().moved(), 0) << "between devices";
    EXPECT_EQ(plan.bytes().kept, 0);
  }
}

TEST(CalibrationPlans, StorageHasTheStateOfAllDevices) {
  const cluster::Cluster cluster = cluster_of(2, 2);
  const CalibrationPlan one = storage_plan(cluster, kBytes);
  EXPECT_EQ(one.from.device_of_rank, one.to.device_of_rank);
  EXPECT_EQ(state_bytes(one.from), 4 * kBytes);
}

TEST(CalibrationPlans, TheLeastIsARowATensorOnEachDevice) {
  const cluster::Cluster cluster = cluster_of(4, 1);
  const plan::Plan plan = plan_of(exchange_plan(cluster, 1), cluster);
  EXPECT_EQ(plan.bytes().cross_host, 4 * int64_t{kCalibrationBoxes / 2} * 1024 * 4);
}

}  // namespace
}  // namespace scalai::apps
