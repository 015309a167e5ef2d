#include "apps/exec/exec_steering.h"

#include <gmock/gmock.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <nlohmann/json.hpp>

#include "executor/rpc/inline_control.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"
#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::apps {
namespace {

using control::testing::Driver;
using control::testing::job_text;
using ::testing::HasSubstr;

proto::CtlRequest status() {
  proto::CtlRequest request;
  request.mutable_status();
  return request;
}
proto::CtlRequest resize(const std::string& job, int32_t gpus) {
  proto::CtlRequest request;
  request.mutable_resize()->set_job(job);
  request.mutable_resize()->set_gpus(gpus);
  return request;
}
proto::CtlRequest drain(int32_t host) {
  proto::CtlRequest request;
  request.mutable_drain()->set_host(host);
  return request;
}

class SteeringTest : public ::testing::Test {
 protected:
  std::string refusal(const proto::CtlRequest& request) { return message_of(steering_.answer(request).status()); }

  const Driver driver_{"until: \"9s\"\n" + job_text("a", "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" }") +
                       job_text("b", "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" }")};
  executor::rpc::InlineControl nobody_{{}, 1};
  Steering steering_{driver_.scenario(), "reshard"};
};

TEST_F(SteeringTest, NothingIsAnsweredBeforeAndAfterTheRun) {
  EXPECT_TRUE(absl::IsUnavailable(steering_.answer(status()).status()));
  steering_.begin(nobody_.controller());
  EXPECT_TRUE(steering_.answer(status()).ok());
  steering_.end();
  EXPECT_TRUE(absl::IsUnavailable(steering_.answer(status()).status()));
}

TEST_F(SteeringTest, RequestsBecomeEventsAndWakeTheController) {
  steering_.begin(nobody_.controller());
  ASSERT_TRUE(steering_.answer(resize("b", 6)).ok());
  ASSERT_TRUE(steering_.answer(drain(1)).ok());
  ASSERT_TRUE(steering_.answer(drain(-1)).ok());
  const std::vector<control::EventBody> events = steering_.requests().take();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(std::get<control::UserResize>(events[0]).job, 1);
  EXPECT_EQ(std::get<control::UserResize>(events[0]).gpus, 6);
  EXPECT_EQ(std::get<control::UserDrain>(events[1]).devices, control::testing::device_ids({2, 3}));
  EXPECT_TRUE(std::holds_alternative<control::UserStop>(events[2]));
  const auto woken = nobody_.controller().next_event(0);
  EXPECT_TRUE(woken && std::holds_alternative<executor::rpc::Note>(*woken));
}

TEST_F(SteeringTest, ADrainMayHaveADeadline) {
  steering_.begin(nobody_.controller());
  for (const int host : {1, -1}) {
    proto::CtlRequest request = drain(host);
    request.mutable_drain()->set_notice_s(30);
    ASSERT_TRUE(steering_.answer(request).ok());
  }
  Steering slow(driver_.scenario(), "reshard", 2);  // two seconds for each of the scenario
  slow.stop(80);
  const std::vector<control::EventBody> events = steering_.requests().take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(std::get<control::UserDrain>(events[0]).notice_s, 30);
  EXPECT_EQ(std::get<control::UserStop>(events[1]).notice_s, 30);
  EXPECT_EQ(std::get<control::UserStop>(slow.requests().take().at(0)).notice_s, 40);
}

TEST_F(SteeringTest, WhatCannotBeIsRefusedWithTheReason) {
  steering_.begin(nobody_.controller());
  EXPECT_THAT(refusal(resize("c", 2)), HasSubstr("no job \"c\""));
  EXPECT_THAT(refusal(resize("", 2)), HasSubstr("which of the 2 jobs"));
  EXPECT_THAT(refusal(resize("b", 3)), HasSubstr("no configuration for 3 GPUs: it has for 4"));
  EXPECT_THAT(refusal(resize("b", 9)), HasSubstr("the cluster has 8 GPUs"));
  EXPECT_THAT(refusal(drain(4)), HasSubstr("no host 4: the cluster has 4"));
  EXPECT_THAT(refusal({}), HasSubstr("does not know"));
  EXPECT_TRUE(steering_.requests().take().empty());
}

TEST(SteeringChoice, AJobThatChoosesMayBeGivenAnyNumber) {
  const Driver driver("until: \"9s\"\n" + job_text("a", "gpus: 4 parallel: choose"));
  executor::rpc::InlineControl nobody({}, 1);
  Steering steering(driver.scenario(), "reshard");
  steering.begin(nobody.controller());
  EXPECT_TRUE(steering.answer(resize("", 7)).ok());
  EXPECT_EQ(message_of(steering.answer(resize("", 0)).status()), "job a needs at least one GPU, not 0: use 1 to 8");
  EXPECT_FALSE(steering.answer(resize("", 9)).ok());
}

TEST_F(SteeringTest, StatusIsWhatTheControlLoopKnows) {
  steering_.begin(nobody_.controller());
  Driver driver("until: \"9s\"\n" + job_text("a", "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" }"));
  steering_.watch(2.5, driver.control());
  const nlohmann::json told = nlohmann::json::parse(steering_.answer(status()).value());
  EXPECT_EQ(told.at("at_s"), 2.5);
  ASSERT_EQ(told.at("jobs").size(), 1u);
  EXPECT_EQ(told.at("jobs")[0].at("step"), 2);
  EXPECT_EQ(told.at("jobs")[0].at("layout"), "tp2");
  EXPECT_EQ(told.at("jobs")[0].at("gpus"), 2);
  EXPECT_TRUE(told.at("losses").empty());
}

TEST_F(SteeringTest, StatusSaysWhyDevicesWereLost) {
  steering_.begin(nobody_.controller());
  Driver driver("until: \"9s\"\n" + job_text("a", "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" }"));
  driver.feed(2, control::DevicesLost{{DeviceId(6)}, 2, false, "the worker of h3: killed by signal 9 (Killed)"});
  steering_.watch(2.5, driver.control());
  const nlohmann::json losses = nlohmann::json::parse(steering_.answer(status()).value()).at("losses");
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_EQ(
      losses[0],
      (nlohmann::json{{"at_s", 2}, {"devices", "g6"}, {"cause", "the worker of h3: killed by signal 9 (Killed)"}}));
}

TEST(SignalWatchTest, EverySignalIsACallWithItsNumber) {
  std::mutex mutex;
  std::condition_variable changed;
  int last = 0;
  const SignalWatch watch([&](int times) {
    const std::lock_guard lock(mutex);
    last = times;
    changed.notify_all();
  });
  for (int times = 1; times <= 2; ++times) {
    ::kill(::getpid(), times == 1 ? SIGTERM : SIGINT);
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(30), [&] { return last == times; })) << times;
  }
}

}  // namespace
}  // namespace scalai::apps
