#include "executor/bench/cases.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/plan/metrics.h"
#include "ptc/plan/planner.h"

namespace scalai::executor::bench {
namespace {

using ::testing::HasSubstr;

plan::Plan plan_of(const Case& one) {
  const cluster::Cluster cluster = cluster_of(one.devices);
  const collection::Residency nobody_lost;
  return plan::make_plan({one.from, one.to, cluster, nobody_lost, {}}).value();
}

TEST(Cases, AllOfThemArePlannedAndMoveSomething) {
  const auto cases = make_cases({.names = case_names(), .devices = {2, 4, 8, 16}, .bytes = 1 << 20});
  ASSERT_TRUE(cases.ok()) << message_of(cases.status());
  ASSERT_EQ(cases->size(), case_names().size() * 4);
  size_t at = 0;
  for (const std::string& name : case_names()) {
    for (const int devices : {2, 4, 8, 16}) {
      const Case& one = (*cases)[at++];
      SCOPED_TRACE(fmt::format("{} at {}", name, devices));
      EXPECT_EQ(one.name, name);
      EXPECT_EQ(one.devices, devices);
      EXPECT_TRUE(collection::validate(one.from).ok());
      EXPECT_TRUE(collection::validate(one.to).ok());
      EXPECT_NE(one.from.epoch, one.to.epoch);
      EXPECT_GE(bytes_on_devices(one.to), one.state_bytes);
      const plan::Plan plan = plan_of(one);
      EXPECT_TRUE(plan.feasible());
      EXPECT_GT(plan.bytes().cross_host, 0);
      EXPECT_EQ(plan.bytes().same_host, 0) << "every device has a host of its own";
    }
  }
}

TEST(Cases, ARowBecomesAColumn) {
  for (const int devices : {2, 4, 8}) {
    const auto cases = make_cases({.names = {"row-column"}, .devices = {devices}, .bytes = 1 << 22});
    ASSERT_TRUE(cases.ok());
    const Case& one = cases->front();
    EXPECT_EQ(one.rows, 1024);
    EXPECT_EQ(one.columns, 1024);
    EXPECT_EQ(one.state_bytes, 1 << 22);
    // Of its 1/N of the columns, a device has 1/N of the rows already.
    const int64_t received = one.state_bytes / devices * (devices - 1) / devices;
    const plan::Plan plan = plan_of(one);
    EXPECT_EQ(plan.bytes().moved(), received * devices);
    for (const plan::DeviceTraffic& device : plan::device_traffic(plan)) {
      EXPECT_EQ(device.received, received);
      EXPECT_EQ(device.sent, received);
    }
  }
}

TEST(Cases, AMatrixIsNearlySquareAndNoLargerThanAsked) {
  for (const int64_t bytes : {int64_t{4096}, int64_t{1} << 21, int64_t{3'000'000}, int64_t{1} << 30}) {
    const auto cases = make_cases({.names = {"row-column"}, .devices = {2}, .bytes = bytes});
    ASSERT_TRUE(cases.ok());
    const Case& one = cases->front();
    EXPECT_EQ(one.state_bytes, one.rows * one.columns * 4);
    EXPECT_LE(one.state_bytes, bytes);
    EXPECT_GT(one.state_bytes + one.rows * 4, bytes);
    EXPECT_LE(one.rows, one.columns);
    EXPECT_LT(one.columns, one.rows * 8);
  }
}

TEST(Cases, ARedeploymentLeavesItsDevices) {
  const auto cases = make_cases({.names = {"redeploy"}, .devices = {8}});
  ASSERT_TRUE(cases.ok());
  for (const DeviceId device : cases->front().from.device_of_rank) EXPECT_LT(device.value, 4);
  for (const DeviceId device : cases->front().to.device_of_rank) EXPECT_GE(device.value, 4);
  EXPECT_EQ(plan_of(cases->front()).bytes().kept, 0);
}

// Of 64 KiB: 16 boxes of 4 KiB, four from each of four devices to one of the others.
TEST(Cases, BoxesMoveOneByOne) {
  const auto cases = make_cases({.names = {"boxes"}, .devices = {8}, .bytes = 65536});
  ASSERT_TRUE(cases.ok());
  EXPECT_EQ(cases->front().state_bytes, 65536);
  const plan::Plan plan = plan_of(cases->front());
  EXPECT_EQ(plan.operations().size(), 16U);
  EXPECT_EQ(plan.bytes().cross_host, 65536);
}

TEST(Cases, ASmallerModelHasTheSamePlanWithFewerBytes) {
  const auto large = make_cases({.names = {"tp"}, .devices = {4}});
  const auto small = make_cases({.names = {"tp"}, .devices = {4}, .scale_model = {1, 16}});
  ASSERT_TRUE(large.ok() && small.ok());
  EXPECT_GT(large->front().state_bytes, 1'700'000'000);
  EXPECT_LT(small->front().state_bytes, large->front().state_bytes / 16);
  EXPECT_EQ(small->front().from.tensors.size(), large->front().from.tensors.size());
}

TEST(Cases, WhatCannotBeIsRefused) {
  const auto message = [](const CaseOptions& options) { return message_of(make_cases(options).status()); };
  EXPECT_THAT(message({.names = {"rows"}}),
              HasSubstr("there is no case \"rows\"; there are row-column, boxes, tp, pp, dp"));
  for (const int devices : {-2, 0, 1, 3, 6, 128})
    EXPECT_THAT(message({.names = {"tp"}, .devices = {devices}}), HasSubstr(fmt::format("{} devices: take", devices)));
  EXPECT_THAT(message({.names = {"row-column"}, .devices = {8}, .bytes = 64}), HasSubstr("64 bytes are too few"));
  EXPECT_THAT(message({.names = {"boxes"}, .devices = {8}, .bytes = 4096}),
              HasSubstr("4096 bytes are too few for boxes"));
}

}  // namespace
}  // namespace scalai::executor::bench
