#include "executor/bench/driver.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "executor/controller/testing/test_fleet.h"
#include "ptc/plan/planner.h"

namespace scalai::executor::bench {
namespace {

using controller::testing::Fleet;

plan::Plan plan_of(const Case& one, const cluster::Cluster& cluster) {
  const collection::Residency nobody_lost;
  return plan::make_plan({one.from, one.to, cluster, nobody_lost, {}}).value();
}

TEST(Driver, EveryCaseArrivesWholeEachTime) {
  const auto cases = make_cases({.names = case_names(), .devices = {2, 4}, .bytes = 1 << 16, .scale_model = {1, 64}});
  ASSERT_TRUE(cases.ok());
  for (const Case& one : *cases) {
    SCOPED_TRACE(fmt::format("{} at {}", one.name, one.devices));
    const cluster::Cluster cluster = cluster_of(one.devices);
    Fleet fleet({.hosts = one.devices});
    controller::WorkerPool pool(cluster, fleet.controller(), fleet.pool_options());
    ASSERT_TRUE(pool.start().ok());
    const auto runs = run_case(pool, one, plan_of(one, cluster), 2);
    ASSERT_TRUE(runs.ok()) << message_of(runs.status());
    EXPECT_EQ(runs->errors, 0) << runs->first_error;
    EXPECT_EQ(runs->transfer_s.size(), 2u);
    EXPECT_EQ(runs->prepare_s.size(), 2u);
    EXPECT_GT(runs->first_s, 0);
  }
}

// A worker that says it has done a round and has not.
TEST(Driver, WhatDidNotArriveIsCounted) {
  const auto cases = make_cases({.names = {"row-column"}, .devices = {2}, .bytes = 1 << 16});
  ASSERT_TRUE(cases.ok());
  const cluster::Cluster cluster = cluster_of(2);
  Fleet fleet(
      {.hosts = 2, .swallow = [](int32_t host, const std::string& what) { return host == 1 && what == "round"; }});
  controller::WorkerPool pool(cluster, fleet.controller(), fleet.pool_options());
  ASSERT_TRUE(pool.start().ok());
  const auto runs = run_case(pool, cases->front(), plan_of(cases->front(), cluster), 2);
  ASSERT_TRUE(runs.ok()) << message_of(runs.status());
  EXPECT_EQ(runs->errors, 3) << "one piece, three times";
  EXPECT_THAT(runs->first_error, ::testing::HasSubstr("matrix"));
}

TEST(Driver, APlanOfAnotherChangeIsRefused) {
  const auto cases = make_cases({.names = {"row-column"}, .devices = {2, 4}, .bytes = 1 << 16});
  ASSERT_TRUE(cases.ok());
  const cluster::Cluster cluster = cluster_of(4);
  Fleet fleet({.hosts = 4});
  controller::WorkerPool pool(cluster, fleet.controller(), fleet.pool_options());
  ASSERT_TRUE(pool.start().ok());
  EXPECT_FALSE(run_case(pool, cases->back(), plan_of(cases->front(), cluster), 1).ok());
}

}  // namespace
}  // namespace scalai::executor::bench
