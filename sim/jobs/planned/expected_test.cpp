#include "sim/jobs/planned/internal/expected.h"

#include <gtest/gtest.h>

#include "sim/jobs/planned/testing/support.h"

namespace scalai::jobs::internal {
namespace {

using testing::Machine;
using testing::World;

TEST(Expected, SumsWaitsAndFlows) {
  const cluster::Cluster cluster = testing::cluster_of({.hosts = 2, .nics = 1, .nic_bytes_per_s = 10});
  const auto fabric = make_unshared_fabric(cluster);
  auto group = std::make_shared<FlowGroup>();
  group->flows = {{.src = {.host = 0, .gpu = 0}, .dst = {.host = 1, .gpu = 0}, .bytes = 100}};
  ChangeShape shape;
  shape.stages = {{.wait_s = 1}, {.wait_s = 2, .flows = group}, {.wait_s = 4}};
  EXPECT_NEAR(alone_s(shape, {HostId(0), HostId(1)}, *fabric), 1 + 2 + 100 / (0.9 * 10) + 4, 1e-9);
}

TEST(Expected, LargeJobsAreEstimatedUntilTheyHaveBeenPlanned) {
  World world(Machine{.hosts = 8});
  const policy::Job job = world.add("gpt3-2.7b", 64);
  const auto fabric = make_unshared_fabric(world.cluster);
  ExpectedSeconds small(*world.configurations, *fabric, {}, 64), large(*world.configurations, *fabric, {}, 4);
  const double planned_s = small.seconds(job, 8, 16), estimated_s = large.seconds(job, 8, 16);
  EXPECT_GT(planned_s, 0.1);
  EXPECT_NE(planned_s, estimated_s);
  EXPECT_GT(estimated_s, 0.1);
  auto shape = std::make_shared<ChangeShape>();
  shape->stages = {{.wait_s = 42}};
  large.note(job, 8, 16, shape, {});
  EXPECT_EQ(large.seconds(job, 8, 16), 42);
}

TEST(Expected, WhatCannotRunIsNeverThere) {
  World world(Machine{.hosts = 2});
  const policy::Job job = world.add("gpt3-13b", 64);
  const auto fabric = make_unshared_fabric(world.cluster);
  const ExpectedSeconds expected(*world.configurations, *fabric, {}, 64);
  EXPECT_EQ(expected.seconds(job, 8, 1), policy::kNever);
  EXPECT_EQ(expected.seconds(job, 8, 8), 0);
}

}  // namespace
}  // namespace scalai::jobs::internal
