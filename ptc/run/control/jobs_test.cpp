#include "ptc/run/control/internal/jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/control/testing/parts_fixture.h"

namespace scalai::control {
namespace {

using testing::device_ids;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Parts;
using testing::sized_job;

std::string three(const std::string& first = "", const std::string& second = "") {
  return "until: \"100s\"\n" + sized_job("a", first, 2) + sized_job("b", second, 2) + sized_job("c", "", 4);
}

TEST(Jobs, ComeInOrderOfSubmissionThenOfTheScenario) {
  const Parts parts(three("submit: \"20s\"", "submit: \"10s\""));
  EXPECT_THAT(parts.jobs.arrivals(), ElementsAre(2, 1, 0));
  EXPECT_EQ(parts.jobs[1].accounts.record.name, "b");
  EXPECT_EQ(parts.jobs[1].wanted.gpus, 2);
  EXPECT_THAT(Parts(three()).jobs.arrivals(), ElementsAre(0, 1, 2));
}

TEST(Jobs, DevicesOfOthersAreTaken) {
  Parts parts(three());
  parts.jobs[0].devices = device_ids({0});
  parts.jobs[1].devices = device_ids({1});
  parts.jobs[1].underway = Underway{.record = {}, .target = {.choice = nullptr, .devices = device_ids({2})}};
  parts.jobs[2].wanted.devices = device_ids({3});
  EXPECT_THAT(parts.jobs.taken_by_others(parts.jobs[0], false), ElementsAre(DeviceId(1), DeviceId(2)));
  EXPECT_THAT(parts.jobs.taken_by_others(parts.jobs[0], true), ElementsAre(DeviceId(1), DeviceId(2), DeviceId(3)));
  EXPECT_THAT(parts.jobs.taken_by_others(parts.jobs[1], false), ElementsAre(DeviceId(0)));
}

TEST(Jobs, AreBlockedByThoseOnTheDevicesTheyWant) {
  Parts parts(three());
  parts.jobs[0].wanted.devices = device_ids({0, 1});
  parts.jobs[0].devices = device_ids({0});
  EXPECT_FALSE(parts.jobs.blocked(parts.jobs[0])) << "its own are no obstacle";
  parts.jobs[1].underway = Underway{.record = {}, .target = {.choice = nullptr, .devices = device_ids({1})}};
  EXPECT_TRUE(parts.jobs.blocked(parts.jobs[0]));
  EXPECT_FALSE(parts.jobs.gives_way(parts.jobs[0])) << "nobody waits for it";
}

TEST(Jobs, TheFirstOfACircleGivesWay) {
  Parts parts(three());
  for (int i = 0; i < 3; ++i) {
    parts.jobs[i].devices = device_ids({i});
    parts.jobs[i].wanted.devices = device_ids({(i + 1) % 3});
  }
  EXPECT_TRUE(parts.jobs.gives_way(parts.jobs[0]));
  EXPECT_FALSE(parts.jobs.gives_way(parts.jobs[1]));
  EXPECT_FALSE(parts.jobs.gives_way(parts.jobs[2]));
  parts.jobs[2].wanted.devices = device_ids({5});  // no circle any more
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(parts.jobs.gives_way(parts.jobs[i])) << i;
}

// Two GPUs of 3 and 1 USD an hour for half an hour, then the second alone for a quarter: 2 + 0.25 USD.
TEST(Jobs, DevicesCostWhatTheirHostsDo) {
  Parts parts(three());
  Job& job = parts.jobs[0];
  allocate(job, device_ids({0, 1}), parts.turn);
  EXPECT_FALSE(job.accounts.record.cost_usd.has_value()) << "no host has a price";
  parts.turn.usd_per_h = {3, 1, 1, 1};
  allocate(job, device_ids({0, 1}), parts.turn);
  parts.turn.now_s = 1800;
  allocate(job, device_ids({1}), parts.turn);
  EXPECT_DOUBLE_EQ(job.accounts.record.cost_usd.value(), 2);
  parts.turn.now_s = 2700;
  allocate(job, {}, parts.turn);
  EXPECT_DOUBLE_EQ(job.accounts.record.cost_usd.value(), 2.25);
  EXPECT_EQ(job.accounts.usd_per_h, 0);
}

TEST(Jobs, AllocationAccountsForTheTimeBefore) {
  Parts parts(three());
  Job& job = parts.jobs[0];
  parts.turn.now_s = 100;
  allocate(job, device_ids({0, 1}), parts.turn);
  EXPECT_EQ(job.accounts.schedule.waited_s, 100);
  EXPECT_EQ(parts.turn.freed_by, "");
  parts.turn.now_s = 1900;
  allocate(job, device_ids({0, 1, 2, 3}), parts.turn);
  EXPECT_EQ(parts.turn.freed_by, "") << "it has left none";
  EXPECT_EQ(job.accounts.record.gpu_hours, 1);
  EXPECT_EQ(job.accounts.held_s, 1800);
  parts.turn.now_s = 2800;
  allocate(job, {}, parts.turn);
  EXPECT_EQ(parts.turn.freed_by, "a");
  EXPECT_EQ(job.accounts.record.gpu_hours, 2);
  EXPECT_THAT(job.devices, IsEmpty());
}

}  // namespace
}  // namespace scalai::control
