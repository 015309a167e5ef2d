// A policy in the control loop: what it is told, what becomes of its answers, and in which order jobs move.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "ptc/run/control/internal/policy_loop.h"
#include "ptc/run/control/testing/parts_fixture.h"

namespace scalai::control {
namespace {

using policy::Decision;
using policy::GpuType;
using policy::Grant;
using policy::JobId;
using testing::device_ids;
using testing::Driver;
using ::testing::HasSubstr;
using testing::job_text;

// Says what the test says, and keeps what it was told.
class Scripted final : public policy::Policy {
 public:
  // What it answers from now on; what is not set again is given once.
  void say(Decision decision) { next_ = std::move(decision); }
  policy::PolicyTraits traits() const override { return {}; }
  absl::StatusOr<Decision> decide(const policy::View& view, std::span<const policy::Event> events) override {
    told.assign(events.begin(), events.end());
    ++asked;
    if (look) look(view);
    return std::exchange(next_, {});
  }

  std::vector<policy::Event> told;
  int asked = 0;
  std::function<void(const policy::View&)> look;

 private:
  Decision next_;
};

Grant grant(int job, int gpus) {
  return {.job = JobId(job), .type = GpuType(0), .gpus = gpus, .hosts = {}, .beside = {}};
}

Grant grant_on(int job, const std::vector<policy::HostShare>& hosts) {
  Grant one = grant(job, 0);
  one.hosts = hosts;
  for (const policy::HostShare& share : hosts) one.gpus += share.gpus;
  return one;
}

Decision grants(std::vector<Grant> list) { return {.grants = std::move(list), .refused = {}}; }

// Steps of 1 s on 4 GPUs, 2 s on 2, 0.5 s on 8.
const std::string kSizes =
    "configs { layout: \"tp2,dp4\" step_time: \"0.5s\" } configs { layout: \"tp2,dp2\" step_time: \"1s\" } "
    "configs { layout: \"tp2,dp1\" step_time: \"2s\" } gpus: 4 min_gpus: 2 max_gpus: 8 ";

// Two jobs that are there at once unless `second` says otherwise.
std::string two(const std::string& second = "", const std::string& more = "",
                const std::string& steps = "steps: 1000 ") {
  return "policy { name: \"fifo\" }\n" + job_text("a", kSizes + steps) + job_text("b", kSizes + steps + second) + more;
}

class Loop : public ::testing::Test {
 protected:
  Driver& begin(const std::string& text, Decision first, const std::string& strategy = "reshard") {
    policy_.say(std::move(first));
    driver_ = std::make_unique<Driver>(text, strategy, false, nullptr, &policy_);
    return *driver_;
  }
  std::string told() const {
    static constexpr std::array kNames = {"submitted", "finished", "lost", "rate", "capacity", "timer"};
    std::string text;
    for (const policy::Event& event : policy_.told)
      text += fmt::format("{}{}{}", text.empty() ? "" : " ", kNames.at(static_cast<size_t>(event.kind)),
                          event.job.valid() ? fmt::format(" {}", event.job.value) : "");
    return text;
  }
  static std::vector<DeviceId> devices_of(const Driver& driver, int job) {
    std::vector<DeviceId> devices;
    for (const Train& train : driver.all<Train>()) {
      if (train.job == job) devices = train.devices;
    }
    return devices;
  }

  Scripted policy_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(Loop, StartsJobsOnWhatItGives) {
  Driver& driver = begin(two(), grants({grant(0, 4), grant(1, 2)}));
  EXPECT_EQ(told(), "submitted 0 submitted 1");
  EXPECT_EQ(devices_of(driver, 0), device_ids({0, 1, 2, 3}));
  EXPECT_EQ(devices_of(driver, 1), device_ids({4, 5}));
}

TEST_F(Loop, AJobWithoutGpusWaits) {
  Driver& driver = begin(two(), grants({grant(1, 8)}));
  EXPECT_EQ(driver.job(0).state, "waiting");
  EXPECT_EQ(driver.only<Train>().job, 1);
  EXPECT_EQ(driver.only<Train>().step_s, 0.5);
}

TEST_F(Loop, GrowthWaitsUntilTheOtherHasLeft) {
  Driver& driver = begin(two("submit: \"10.5s\""), grants({grant(0, 8)}));
  EXPECT_EQ(driver.job(1).state, "pending");
  policy_.say(grants({grant(0, 4), grant(1, 4)}));
  driver.feed(10.5, TimerFired{0});
  EXPECT_EQ(told(), "submitted 1");
  EXPECT_EQ(driver.job(1).state, "waiting");
  EXPECT_EQ(driver.only<Train>().until_step, 21) << "a stops at a step boundary";
  driver.feed(10.5, StepReached{0, 21});
  EXPECT_EQ(driver.only<Execute>().job, 0) << "b still waits";
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({0, 1, 2, 3}));
  driver.done(14);
  driver.only<Commit>();
  EXPECT_EQ(driver.only<Execute>().job, 1) << "the devices that it needs are free with the commit";
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({4, 5, 6, 7}));
  driver.done(18, 1, /*job=*/1);
  EXPECT_EQ(driver.only<Train>().devices, device_ids({4, 5, 6, 7}));
  EXPECT_EQ(driver.reconfiguration(0).cause, "fifo: 8 to 4 GPUs");
  EXPECT_EQ(driver.reconfiguration(0, 1).cause, "fifo: 4 GPUs");
  EXPECT_EQ(driver.reconfiguration(0, 1).from_gpus, 0);
}

TEST_F(Loop, CompletionIsToldAndWhatIsFreeMayBeGiven) {
  Driver& driver =
      begin("policy { name: \"fifo\" }\n" + job_text("a", kSizes + "steps: 10") + job_text("b", kSizes + "steps: 1000"),
            grants({grant(0, 4), grant(1, 4)}));
  policy_.say(grants({grant(1, 8)}));
  driver.feed(10, StepReached{0, 10});
  EXPECT_EQ(told(), "finished 0");
  EXPECT_EQ(driver.only<Train>().until_step, 10);
  driver.feed(10, StepReached{1, 10});
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices().size(), 8U);
}

TEST_F(Loop, AJobMayBeLeftWithoutGpusAndGoesOnFromItsState) {
  Driver& driver = begin(two(), grants({grant(0, 8)}));
  policy_.say(grants({grant(0, 0), grant(1, 8)}));
  driver.feed(10, UserResize{1, 8});  // any reason to ask
  driver.feed(10, StepReached{0, 20});
  EXPECT_EQ(driver.job(0).state, "waiting");
  EXPECT_EQ(driver.only<Execute>().job, 1);
  EXPECT_EQ(driver.job(0).schedule->preemptions, 1);
  driver.done(12, 1, 1);
  EXPECT_EQ(driver.only<Train>().job, 1);
  policy_.say(grants({grant(1, 4), grant(0, 4)}));
  driver.feed(20, UserResize{1, 8});
  const Train stopping = driver.only<Train>();
  driver.feed(20, StepReached{1, stopping.until_step});
  driver.done(21, 1, 1);
  const Execute again = driver.only<Execute>();
  EXPECT_EQ(again.job, 0);
  EXPECT_EQ(again.step, 20) << "nothing is lost";
  driver.done(24, 1, 0);
  EXPECT_EQ(driver.only<Train>().from_step, 20);
  EXPECT_EQ(driver.job(0).lost_steps, 0);
  EXPECT_EQ(driver.job(0).schedule->restarts, 1);
  EXPECT_DOUBLE_EQ(driver.job(0).schedule->waited_s, 14);
}

TEST_F(Loop, ALossIsToldBeforeTheJobMoves) {
  Driver& driver = begin(two(), grants({grant(0, 4), grant(1, 4)}));
  policy_.say(grants({grant(0, 2)}));
  driver.lose(10, {0});
  EXPECT_EQ(told(), "lost 0 capacity");
  driver.only<Halt>();
  const Execute execute = driver.only<Execute>();
  EXPECT_EQ(execute.plan->dst_devices(), device_ids({2, 3})) << "its own that live on one host";
  EXPECT_DOUBLE_EQ(driver.reconfiguration(0).phases.detect, 5);
  EXPECT_EQ(driver.reconfiguration(0).cause, "lost g0");
}

TEST_F(Loop, ALossMayMoveOthers) {
  Driver& driver = begin(two(), grants({grant(0, 4), grant(1, 4)}));
  policy_.say(grants({grant(0, 4), grant(1, 2)}));
  driver.lose(10, {0, 1});
  EXPECT_EQ(driver.job(0).state, "waiting") << "for what b is to leave";
  EXPECT_EQ(driver.only<Train>().job, 1);
  driver.feed(15, StepReached{1, 15});
  EXPECT_EQ(driver.only<Execute>().job, 1);
  driver.done(17, 1, 1);
  EXPECT_EQ(driver.only<Execute>().job, 0);
  EXPECT_EQ(driver.only<Execute>().step, 10);
}

TEST_F(Loop, LostGpusThatAreNotGivenAgainLeaveTheJobWaiting) {
  Driver& driver = begin(two(), grants({grant(0, 4), grant(1, 4)}));
  driver.lose(10, {0});
  EXPECT_EQ(driver.job(0).state, "waiting");
  EXPECT_EQ(driver.job(0).schedule->preemptions, 0) << "it was not the policy";
  policy_.look = [](const policy::View& view) {
    EXPECT_EQ(view.capacity(GpuType(0)), 7);
    EXPECT_EQ(view.capacity(HostId(0)), 1);
    EXPECT_TRUE(view.progress(JobId(0)).placement.empty());
    EXPECT_EQ(view.progress(JobId(0)).work_done, 10);
    EXPECT_EQ(view.progress(JobId(1)).placement.gpus(), 4);
  };
  policy_.say(grants({grant(0, 2)}));
  driver.feed(20, UserResize{1, 8});
  EXPECT_EQ(driver.only<Execute>().job, 0);
}

TEST_F(Loop, ANoticeIsALossAheadOfTime) {
  Driver& driver = begin(two("", "events { at: \"10.5s\" preempt { hosts: [0] notice: \"60s\" } }"),
                         grants({grant(0, 4), grant(1, 2)}));
  policy_.say(grants({grant(0, 4)}));
  driver.feed(10.5, TimerFired{0});
  EXPECT_EQ(told(), "lost 0 capacity");
  EXPECT_TRUE(driver.none<Halt>());
  EXPECT_EQ(driver.only<Train>().until_step, 11) << "it leaves at a step boundary, with its state";
  driver.feed(11, StepReached{0, 11});
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({2, 3, 6, 7}));
  EXPECT_EQ(driver.only<Execute>().step, 11);
  EXPECT_THAT(driver.reconfiguration(0).cause, HasSubstr("preemption of g0-g1; fifo: 4 GPUs"));
}

TEST_F(Loop, ARepairIsCapacity) {
  Driver& driver =
      begin(two("", "events { at: \"10s\" fail { hosts: [3] } } events { at: \"20s\" repair { hosts: [3] } }"),
            grants({grant(0, 4)}));
  driver.feed(10, TimerFired{0});
  driver.lose(10, {6, 7});
  EXPECT_EQ(told(), "capacity");
  driver.feed(20, TimerFired{1});
  EXPECT_EQ(told(), "capacity");
  EXPECT_EQ(policy_.asked, 3);
}

TEST_F(Loop, JobsThatSwapTheirHostsDoNotWaitForEachOther) {
  Driver& driver = begin(two(), grants({grant(0, 4), grant(1, 4)}));
  const HostId h0(0), h1(1), h2(2), h3(3);
  policy_.say(grants({grant_on(0, {{h2, 2}, {h3, 2}}), grant_on(1, {{h0, 2}, {h1, 2}})}));
  driver.feed(10, UserResize{1, 8});
  EXPECT_EQ(driver.only<Train>().job, 0) << "the first gives way; the other trains on";
  driver.feed(10, StepReached{0, 10});
  EXPECT_EQ(driver.job(0).state, "waiting");
  EXPECT_EQ(driver.only<Train>().job, 1) << "now b may move";
  driver.feed(10, StepReached{1, 10});
  EXPECT_EQ(driver.only<Execute>().job, 1);
  driver.done(12, 1, 1);
  EXPECT_EQ(driver.only<Execute>().job, 0);
  driver.done(14, 1, 0);
  EXPECT_EQ(driver.only<Train>().devices, device_ids({4, 5, 6, 7}));
}

TEST_F(Loop, IsWokenWhenItAsks) {
  Decision first = grants({grant(0, 4)});
  first.wake_at_s = 30;
  Driver& driver = begin(two(), first);
  EXPECT_EQ(driver.only<ArmTimer>().at_s, 30);
  Decision later;
  later.wake_at_s = 50;
  policy_.say(later);
  driver.feed(10, UserResize{1, 8});  // replaces the wake-up
  EXPECT_EQ(driver.only<ArmTimer>().at_s, 50);
  driver.feed(30, TimerFired{0});
  EXPECT_EQ(policy_.asked, 2) << "not any more";
  driver.feed(50, TimerFired{1});
  EXPECT_EQ(policy_.asked, 3);
  EXPECT_EQ(told(), "timer");
  later.wake_at_s = 60;
  policy_.say(later);
  driver.feed(60, UserResize{1, 8});
  EXPECT_THAT(message_of(driver.control().policy_status()), HasSubstr("to be woken at 60 s, which is not after now"));
}

TEST_F(Loop, APolicyThatWaitsForNothingLetsTheRunEnd) {
  Decision again;
  again.wake_at_s = 1;
  Driver& driver = begin(two(), again);
  int64_t timer = 0;
  double at_s = 1;
  while (!driver.all<ArmTimer>().empty() && timer < 5000) {
    again.wake_at_s = at_s + 1;
    policy_.say(again);
    driver.feed(at_s, TimerFired{timer++});
    at_s += 1;
  }
  EXPECT_GT(timer, 1000);
  EXPECT_LT(timer, 1010);
}

TEST_F(Loop, ARefusedJobIsOver) {
  Decision first = grants({grant(0, 4)});
  first.refused = {JobId(1)};
  Driver& driver = begin(two("", "", "steps: 10 "), first);
  EXPECT_EQ(driver.job(1).state, "refused");
  EXPECT_EQ(driver.job(1).failure, "");
  driver.feed(10, StepReached{0, 10});
  driver.only<Stop>();
}

TEST_F(Loop, AUserMayHoldAJobBelowItsGrant) {
  Driver& driver = begin(two(), grants({grant(0, 4)}));
  policy_.look = [](const policy::View& view) {
    EXPECT_EQ(view.throughput().rate(view.job(JobId(0)), GpuType(0), 8, 0).per_s, 0.5) << "more makes it no faster";
  };
  driver.feed(10, UserResize{0, 2});
  EXPECT_EQ(told(), "capacity");
  driver.feed(10, StepReached{0, 10});
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices().size(), 2U);
  EXPECT_EQ(driver.reconfiguration(0).cause, "resize to 2");
}

TEST_F(Loop, WhatBreaksTheRulesEndsTheRun) {
  const auto complaint = [&](Decision decision) {
    Scripted policy;
    policy.say(std::move(decision));
    Driver driver(two("submit: \"5s\""), "reshard", false, nullptr, &policy);
    EXPECT_EQ(exit_code_of(driver.control().policy_status()), 5);
    EXPECT_TRUE(driver.feed(1, UserResize{0, 2}).empty()) << "nothing goes on";
    return message_of(driver.control().policy_status());
  };
  EXPECT_THAT(complaint(grants({grant(0, 9)})), HasSubstr("9 GPUs of a6000-48g, of which 8 are free"));
  EXPECT_THAT(complaint(grants({grant(1, 2)})), HasSubstr("job \"b\", which was not submitted yet"));
  EXPECT_THAT(complaint(grants({grant(7, 2)})), HasSubstr("a grant to job 7, of 2"));
  EXPECT_THAT(complaint(grants({grant_on(0, {{HostId(0), 3}})})), HasSubstr("3 GPUs of host 0, which has 2 free"));
  Grant beside = grant(0, 2);
  beside.beside = JobId(0);
  EXPECT_THAT(complaint(grants({beside})), HasSubstr("without space sharing"));
  EXPECT_THAT(complaint({.grants = {}, .refused = {JobId(1)}}), HasSubstr("job 1 is refused, which does not wait"));
  EXPECT_THAT(complaint({.grants = {}, .refused = {}, .wake_at_s = 0}), HasSubstr("which is not after now"));
}

TEST_F(Loop, AnAttemptThatIsCutShortAsksAgain) {
  Driver& driver = begin(two(), grants({grant(0, 4)}));
  policy_.say(grants({grant(0, 8)}));
  driver.feed(10, UserResize{1, 8});
  driver.feed(10, StepReached{0, 10});
  driver.only<Execute>();
  policy_.say(grants({grant(0, 2)}));
  driver.lose(11, {6, 7}, 1);
  EXPECT_EQ(told(), "lost 0 capacity");
  driver.only<Abort>();
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({0, 1}));
  driver.done(15);
  EXPECT_EQ(driver.only<Train>().devices, device_ids({0, 1}));
}

// ---- jobs that come later, without a policy -------------------------------------------------------------------------

TEST(Submission, AJobTakesWhatIsFreeWhenItComes) {
  const std::string four = "gpus: 4 steps: 100 configs { layout: \"tp2,dp2\" step_time: \"1s\" } ";
  Driver driver(job_text("a", four) + job_text("late", four + "submit: \"10s\"") +
                job_text("b", four + "submit: \"5s\" deadline: \"300s\""));
  EXPECT_EQ(driver.only<Train>().job, 0);
  std::vector<double> arrivals;
  for (const ArmTimer& timer : driver.all<ArmTimer>()) arrivals.push_back(timer.at_s);
  EXPECT_EQ(arrivals, (std::vector<double>{5, 10}));
  driver.feed(5, TimerFired{0});
  EXPECT_EQ(driver.only<Execute>().job, 2);
  driver.done(8, 1, 2);
  driver.feed(10, TimerFired{1});
  EXPECT_EQ(driver.job(1).state, "waiting");
  driver.feed(100, StepReached{0, 100});
  EXPECT_EQ(driver.only<Execute>().job, 1) << "what a has left";
  driver.done(103, 1, 1);
  driver.feed(108, StepReached{2, 100});
  driver.feed(203, StepReached{1, 100});
  driver.only<Stop>();
  const JobRecord late = driver.job(1);
  EXPECT_EQ(late.wall_s, 193) << "since it came";
  EXPECT_EQ(late.downtime_s, 93);
  EXPECT_EQ(late.schedule->first_start_s, 103);
  EXPECT_EQ(late.schedule->waited_s, 93);
  EXPECT_EQ(late.schedule->restarts, 0);
  EXPECT_DOUBLE_EQ(late.gpu_hours, 4 * 100 / 3600.0);
  EXPECT_EQ(driver.job(2).schedule->deadline_s, 300);
}

TEST(Submission, WhoComesFirstIsAskedFirst) {
  const std::string eight = "gpus: 8 steps: 10 configs { layout: \"tp2,dp4\" step_time: \"1s\" } ";
  Driver driver(job_text("later", eight + "submit: \"2s\"") + job_text("sooner", eight + "submit: \"1s\"") +
                job_text("a", eight));
  driver.feed(1, TimerFired{0});
  driver.feed(2, TimerFired{1});
  driver.feed(10, StepReached{2, 10});
  EXPECT_EQ(driver.only<Execute>().job, 1);
}

// ---- the loop by itself ---------------------------------------------------------------------------------------------

class LoopAlone : public ::testing::Test {
 protected:
  testing::Parts parts_{two()};
  Script script_{parts_.scenario};
  const scenario::Strategy strategy_ = scenario::strategies().front();
  Scripted policy_;
  PolicyLoop loop_{parts_.scenario, strategy_, parts_.jobs, parts_.condition, parts_.turn, &policy_};
};

TEST_F(LoopAlone, ThePolicyHearsOfEachThingOnceInAFixedOrder) {
  EXPECT_FALSE(loop_.ask().has_value()) << "told nothing";
  loop_.tell(policy::Event::Kind::kTimer);
  loop_.tell(policy::Event::Kind::kSubmitted, 1);
  loop_.tell(policy::Event::Kind::kSubmitted, 0);
  loop_.tell(policy::Event::Kind::kSubmitted, 1);
  loop_.tell(policy::Event::Kind::kCapacity);
  EXPECT_TRUE(loop_.unsettled());
  ASSERT_TRUE(loop_.ask().has_value());
  EXPECT_FALSE(loop_.unsettled());
  ASSERT_EQ(policy_.told.size(), 4u);
  EXPECT_EQ(policy_.told[0].kind, policy::Event::Kind::kCapacity);
  EXPECT_EQ(policy_.told[1].job, JobId(0));
  EXPECT_EQ(policy_.told[2].job, JobId(1));
  EXPECT_EQ(policy_.told[3].kind, policy::Event::Kind::kTimer);
}

TEST_F(LoopAlone, AGrantIsAWishThatAUserMayLimit) {
  parts_.jobs[0].submitted = true;
  policy_.say(grants({grant(0, 4)}));
  loop_.tell(policy::Event::Kind::kSubmitted, 0);
  ASSERT_TRUE(loop_.grant(*loop_.ask()));
  Job& job = parts_.jobs[0];
  EXPECT_EQ(job.wanted.devices, device_ids({0, 1, 2, 3}));
  EXPECT_EQ(loop_.take_change()->cause, "fifo: 4 GPUs");
  EXPECT_FALSE(loop_.take_change().has_value());
  loop_.limit(job, 2);
  EXPECT_EQ(job.grant.devices.size(), 4u);
  EXPECT_EQ(job.wanted.devices, device_ids({0, 1}));
  EXPECT_EQ(loop_.take_change()->cause, "resize to 2");
  loop_.take_grants({DeviceId(3)}, "lost g3");
  EXPECT_TRUE(job.grant.devices.empty());
  EXPECT_EQ(loop_.take_change()->cause, "lost g3");
}

TEST_F(LoopAlone, RefusesOnlyJobsThatWait) {
  parts_.jobs[0].submitted = true;
  const auto refuses = [&](int job) {
    return loop_.grant({.decision = {.grants = {}, .refused = {JobId(job)}}, .only_woken = false});
  };
  EXPECT_TRUE(refuses(0));
  EXPECT_TRUE(loop_.status().ok());
  EXPECT_FALSE(refuses(1)) << "not submitted";
  EXPECT_THAT(message_of(loop_.status()), HasSubstr("job 1 is refused"));
}

TEST_F(LoopAlone, IsWokenByTheTimerItWaitsFor) {
  const auto asks_for = [](double at_s) {
    PolicyLoop::Answer answer;
    answer.decision.wake_at_s = at_s;
    return answer;
  };
  loop_.arm_wake_up(asks_for(30), script_, parts_.turn);
  loop_.arm_wake_up(asks_for(30), script_, parts_.turn);  // armed already
  loop_.arm_wake_up(asks_for(20), script_, parts_.turn);
  EXPECT_EQ(parts_.all<ArmTimer>().size(), 2u);
  loop_.wake(0);
  EXPECT_FALSE(loop_.unsettled()) << "another timer took its place";
  loop_.wake(1);
  EXPECT_TRUE(loop_.unsettled());
}

}  // namespace
}  // namespace scalai::control
