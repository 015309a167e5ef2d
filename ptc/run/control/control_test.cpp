#include "ptc/run/control/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace {

using testing::device_ids;
using testing::Driver;
using ::testing::HasSubstr;
using testing::job_text;

// Steps of 1 s on 4 GPUs, 2 s on 2; until 1000 s.
std::string elastic(const std::string& more = "", const std::string& job_more = "") {
  return "until: \"1000s\"\n" +
         job_text("a",
                  "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2,dp1\" step_time: "
                  "\"2s\" } " +
                      job_more) +
         more;
}

// ---- training -------------------------------------------------------------------------------------------------------

TEST(ControlTraining, StartsOnTheLowestDevices) {
  Driver driver(elastic());
  const Train train = driver.only<Train>();
  EXPECT_EQ(train.devices, device_ids({0, 1, 2, 3}));
  EXPECT_EQ(train.start_s, 0);
  EXPECT_EQ(train.from_step, 0);
  EXPECT_EQ(train.step_s, 1);
  EXPECT_GT(train.until_step, 1'000'000'000);  // nothing planned
}

TEST(ControlTraining, IsCompleteAfterItsSteps) {
  Driver driver(elastic("", "steps: 7"));
  EXPECT_EQ(driver.only<Train>().until_step, 7);
  driver.feed(7, StepReached{0, 7});
  driver.only<Stop>();
  EXPECT_EQ(driver.job().state, "complete");
  EXPECT_EQ(driver.job().steps, 7);
  EXPECT_EQ(driver.job().samples, 56);
  EXPECT_EQ(driver.job().downtime_s, 0);
  EXPECT_DOUBLE_EQ(driver.job().gpu_hours, 4 * 7 / 3600.0);
}

TEST(ControlTraining, TheEndOfTheScenarioCountsWholeSteps) {
  Driver driver(elastic());
  driver.feed(1000, TimerFired{0});
  driver.only<Stop>();
  EXPECT_EQ(driver.job().steps, 1000);
  EXPECT_EQ(driver.job().state, "running");
  EXPECT_TRUE(driver.feed(1001, UserResize{0, 2}).empty());
}

// ---- resizes --------------------------------------------------------------------------------------------------------

TEST(ControlResize, StopsAtTheNextStepBoundary) {
  Driver driver(elastic("events { at: \"10.5s\" resize { gpus: 2 } }"));
  driver.feed(10.5, TimerFired{1});
  EXPECT_EQ(driver.only<Train>().until_step, 11);
  EXPECT_EQ(driver.only<Train>().start_s, 0);
  driver.feed(11, StepReached{0, 11});
  const Execute execute = driver.only<Execute>();
  EXPECT_EQ(execute.reconfiguration, 1);
  EXPECT_EQ(execute.plan->dst_devices(), device_ids({0, 1}));
  EXPECT_EQ(execute.plan->bytes().moved(), 0);
  driver.done(20, 9);
  driver.only<Commit>();
  EXPECT_EQ(driver.only<Train>().from_step, 11);
  EXPECT_EQ(driver.only<Train>().start_s, 20);
  EXPECT_EQ(driver.only<Train>().step_s, 2);
  const ReconfigurationRecord record = driver.reconfiguration(0);
  EXPECT_EQ(record.at_s, 10.5);
  EXPECT_EQ(record.phases.stop, 0.5);
  EXPECT_EQ(record.resumed_s, 20);
  EXPECT_EQ(record.from, "tp2,dp2");
  EXPECT_EQ(record.to, "tp2");
  EXPECT_EQ(record.cause, "resize to 2");
  EXPECT_TRUE(record.completed);
}

TEST(ControlResize, ToTheSameSizeIsNothing) {
  Driver driver(elastic());
  EXPECT_TRUE(driver.feed(3.5, UserResize{0, 4}).empty()) << driver.text();
  EXPECT_TRUE(driver.job().reconfigurations.empty());
}

TEST(ControlResize, ToANumberWithoutConfigurationTakesTheNextSmaller) {
  Driver driver(elastic());
  EXPECT_TRUE(driver.feed(3.5, UserResize{0, 7}).empty()) << driver.text();
  driver.feed(4.5, UserResize{0, 3});
  driver.feed(5, StepReached{0, 5});
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices().size(), 2u);
}

TEST(ControlResize, TakenBackBeforeTheBoundaryIsNothing) {
  Driver driver(elastic());
  driver.feed(3.25, UserResize{0, 2});
  driver.feed(3.5, UserResize{0, 4});
  driver.feed(4, StepReached{0, 4});
  EXPECT_TRUE(driver.none<Execute>()) << driver.text();
  EXPECT_EQ(driver.only<Train>().from_step, 4);
  EXPECT_TRUE(driver.job().reconfigurations.empty());
}

TEST(ControlResize, AskedDuringAReconfigurationIsHonouredAfterItsCommit) {
  Driver driver(elastic());
  driver.feed(3.5, UserResize{0, 2});
  driver.feed(4, StepReached{0, 4});
  EXPECT_TRUE(driver.feed(6, UserResize{0, 4}).empty()) << driver.text();
  driver.done(8);
  driver.only<Commit>();
  EXPECT_EQ(driver.only<Execute>().reconfiguration, 2);
  EXPECT_TRUE(driver.none<Train>());
  driver.done(9);
  EXPECT_EQ(driver.only<Train>().step_s, 1);
  EXPECT_EQ(driver.reconfiguration(1).cause, "resize to 4");
}

TEST(ControlResize, AskedAndTakenBackDuringAReconfigurationIsNothing) {
  Driver driver(elastic());
  driver.feed(3.5, UserResize{0, 2});
  driver.feed(4, StepReached{0, 4});
  driver.feed(6, UserResize{0, 4});
  driver.feed(7, UserResize{0, 2});
  driver.done(8);
  EXPECT_EQ(driver.only<Train>().step_s, 2);
}

TEST(ControlRedeploy, OntoTheSameDevicesMovesNothing) {
  Driver driver(elastic("events { at: \"10s\" redeploy { devices: [0, 1, 2, 3] } }"));
  driver.feed(10, TimerFired{1});
  EXPECT_EQ(driver.only<Train>().until_step, 10);
  driver.feed(10, StepReached{0, 10});
  const plan::ClassBytes bytes = driver.only<Execute>().plan->bytes();
  EXPECT_EQ(bytes.moved() + bytes.same_device + bytes.from_storage, 0);
  EXPECT_GT(bytes.kept, 0);
}

TEST(ControlRedeploy, KeepsTheOrderOfItsDevicesUnlessTheStrategyPlacesRanks) {
  const std::string text = elastic("events { at: \"10s\" redeploy { devices: [7, 6, 1, 0] } }");
  for (const auto& [strategy, expected] :
       {std::pair("tenplex", device_ids({7, 6, 1, 0})), std::pair("reshard", device_ids({0, 1, 7, 6}))}) {
    Driver driver(text, strategy);
    driver.feed(10, TimerFired{1});
    driver.feed(10, StepReached{0, 10});
    EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), expected) << strategy;
  }
}

// ---- events at steps and during reconfigurations --------------------------------------------------------------------

TEST(ControlAtStep, HappensAtTheStep) {
  Driver driver(elastic("events { at_step { step: 6 } resize { gpus: 2 } }"));
  EXPECT_EQ(driver.only<Train>().until_step, 6);
  driver.feed(6, StepReached{0, 6});
  EXPECT_EQ(driver.only<Execute>().reconfiguration, 1);
  EXPECT_EQ(driver.reconfiguration(0).phases.stop, 0);
}

TEST(ControlAtStep, AStepReachedTwiceIsOneCheckpoint) {
  Driver driver(elastic("", "checkpoint { every_steps: 5 }"));
  driver.feed(0, UserResize{0, 2});
  driver.feed(0, UserResize{0, 4});
  driver.feed(0, StepReached{0, 0});
  EXPECT_TRUE(driver.none<Background>()) << "the initial state is in storage already";
  driver.feed(5, StepReached{0, 5});
  driver.feed(5.001, BackgroundDone{0, driver.only<Background>().tag});
  driver.feed(5.001, UserResize{0, 2});  // while training waits for the copy into host memory
  driver.feed(5.002, UserResize{0, 4});
  driver.feed(5.003, StepReached{0, 5});
  EXPECT_TRUE(driver.none<Background>());
}

TEST(ControlAtStep, TheLastStepCountsToo) {
  Driver driver(
      "until: \"1000s\"\n" + job_text("a", "gpus: 2 steps: 5 configs { layout: \"tp2\" step_time: \"1s\" }") +
      job_text("b",
               "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" } configs { layout: \"tp4\" step_time: \"1s\" }") +
      "events { at_step { job: \"a\" step: 5 } resize { job: \"b\" gpus: 4 } }");
  driver.feed(5, StepReached{0, 5});
  EXPECT_EQ(driver.job(0).state, "complete");
  EXPECT_EQ(driver.only<Train>().job, 1);
  driver.feed(5, StepReached{1, 5});
  EXPECT_EQ(driver.reconfiguration(0, 1).to_gpus, 4);
}

// A watchdog of 600 s, and 300 s until it is known which device stands still.
TEST(ControlFail, WhatHangsIsNoticedLater) {
  Driver driver(elastic("events { at_step { step: 2 } fail { devices: [7] hangs: true } }"));
  driver.feed(2, StepReached{0, 2});
  EXPECT_EQ(driver.only<Inject>().detect_s, 600 + 300);
}

TEST(ControlDuring, HappensAfterTheRoundAndItsDelay) {
  Driver driver(
      elastic("events { during { reconfiguration: 1 after_round: 1 } fail { devices: [7] } }\n"
              "events { during { reconfiguration: 1 after_round: 0 delay: \"3s\" } fail { devices: [6] } }\n"
              "events { during { reconfiguration: 2 } fail { devices: [5] } }"));
  driver.feed(3.5, UserResize{0, 2});
  driver.feed(4, StepReached{0, 4});
  driver.feed(5, RoundDone{0, 0});
  EXPECT_EQ(driver.only<ArmTimer>().at_s, 8);
  EXPECT_TRUE(driver.none<Inject>());
  driver.feed(6, RoundDone{0, 1});
  EXPECT_EQ(std::get<scenario::Fail>(driver.only<Inject>().what).devices, device_ids({7}));
  EXPECT_EQ(driver.only<Inject>().detect_s, 15);
  driver.feed(8, TimerFired{1});
  EXPECT_EQ(std::get<scenario::Fail>(driver.only<Inject>().what).devices, device_ids({6}));
  EXPECT_TRUE(driver.feed(9, RoundDone{0, 1}).empty()) << "each event happens once";
}

// ---- slow devices and preemption ------------------------------------------------------------------------------------

TEST(ControlDegrade, SlowsStepsFromTheNextOn) {
  Driver driver(
      elastic("events { at: \"10.5s\" degrade { devices: [3] factor: 0.5 } }\n"
              "events { at: \"20.5s\" degrade { devices: [3] factor: 1 } }"));
  driver.feed(10.5, TimerFired{1});
  EXPECT_EQ(driver.only<Train>().until_step, 11);
  EXPECT_EQ(driver.only<Train>().step_s, 1);
  driver.feed(11, StepReached{0, 11});
  EXPECT_EQ(driver.only<Train>().step_s, 2);
  driver.feed(20.5, TimerFired{2});
  EXPECT_EQ(driver.only<Train>().until_step, 16);
  driver.feed(21, StepReached{0, 16});
  EXPECT_EQ(driver.only<Train>().step_s, 1);
  EXPECT_TRUE(driver.job().reconfigurations.empty());
}

TEST(ControlDegrade, OfOthersOrOfLinksDoesNotTouchTraining) {
  Driver driver(elastic("events { at: \"10.5s\" degrade { devices: [6] links: \"h0.nic0.up\" factor: 0.5 } }"));
  driver.feed(10.5, TimerFired{1});
  EXPECT_TRUE(driver.none<Train>());
  EXPECT_EQ(std::get<scenario::Degrade>(driver.only<Inject>().what).links.size(), 1u);
}

// Under tp2,dp2 others hold all state of a host: the job trains until the last step boundary in time, at 70 s.
TEST(ControlPreempt, LeavesBeforeTheDeadline) {
  Driver driver(elastic("events { at: \"10.5s\" preempt { hosts: [0] notice: \"60s\" } }"));
  driver.feed(10.5, TimerFired{1});
  ASSERT_EQ(driver.all<ArmTimer>().size(), 2u);
  EXPECT_EQ(driver.all<ArmTimer>()[0].at_s, 69.5) << "a step before the deadline";
  EXPECT_EQ(driver.all<ArmTimer>()[1].at_s, 70.5);
  driver.feed(69.5, TimerFired{2});
  EXPECT_EQ(driver.only<Train>().until_step, 70);
  driver.feed(70, StepReached{0, 70});
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({2, 3, 4, 5}));
  driver.done(70.25);
  driver.feed(70.5, TimerFired{3});
  EXPECT_EQ(std::get<scenario::Fail>(driver.only<Inject>().what).devices, device_ids({0, 1}));
  EXPECT_TRUE(driver.lose(70.5, {0, 1}).empty()) << driver.text();
  EXPECT_EQ(driver.job().lost_steps, 0);
  EXPECT_THAT(driver.reconfiguration(0).cause, HasSubstr("preemption of g0-g1"));
}

// ---- several jobs ---------------------------------------------------------------------------------------------------

std::string two_jobs(const std::string& first, const std::string& second, const std::string& more = "") {
  return "until: \"1000s\"\n" + job_text("a", first) + job_text("b", second) + more;
}
const std::string kUpTo4 =
    "configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: \"2s\" } ";
const std::string kOnly4 = "configs { layout: \"tp2,dp2\" step_time: \"1s\" } ";

TEST(ControlJobs, AreOnDisjointDevices) {
  Driver driver(two_jobs("gpus: 4 " + kUpTo4, "gpus: 4 " + kUpTo4));
  driver.feed(3.5, UserResize{0, 2});
  EXPECT_EQ(driver.only<Train>().devices, device_ids({0, 1, 2, 3}));
  EXPECT_TRUE(driver.feed(3.75, UserResize{1, 4}).empty());
}

TEST(ControlJobs, FinishingFreesDevicesForAWaitingJob) {
  Driver driver(
      two_jobs("gpus: 4 steps: 9 " + kOnly4, "gpus: 4 " + kOnly4, "events { at: \"2s\" fail { hosts: [3] } }"));
  driver.lose(2, {6, 7});
  driver.only<Halt>();
  EXPECT_EQ(driver.job(1).state, "waiting");
  driver.feed(9, StepReached{0, 9});
  EXPECT_EQ(driver.only<Execute>().job, 1);
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices().size(), 4u);
}

TEST(ControlJobs, ShrinkingFreesDevicesForAWaitingJob) {
  Driver driver(two_jobs("gpus: 4 " + kUpTo4, "gpus: 4 " + kOnly4));
  driver.lose(2, {6, 7});
  EXPECT_EQ(driver.job(1).state, "waiting");
  driver.feed(10.5, UserResize{0, 2});
  driver.feed(11, StepReached{0, 11});
  driver.done(12);
  EXPECT_EQ(driver.only<Execute>().job, 1) << "b goes on as soon as a has left";
}

TEST(ControlJobs, AFailedJobFreesDevicesForAWaitingJob) {
  Driver driver(
      two_jobs("gpus: 4 configs { layout: \"tp4\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: \"1s\" }",
               "gpus: 4 " + kOnly4));
  driver.lose(2, {6, 7});
  EXPECT_EQ(driver.job(1).state, "waiting");
  driver.lose(20, {0});
  EXPECT_EQ(driver.job(0).state, "failed");
  EXPECT_EQ(driver.only<Execute>().job, 1);
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({1, 2, 4, 5}));
}

TEST(ControlJobs, AStrangersLossDoesNotEndCheckpoints) {
  Driver driver(two_jobs("gpus: 4 checkpoint { every_steps: 10 } " + kOnly4, "gpus: 4 " + kUpTo4));
  driver.lose(2, {6});
  driver.feed(10, StepReached{0, 10});
  EXPECT_EQ(driver.only<Background>().what, "checkpoint");
}

// ---- purity ---------------------------------------------------------------------------------------------------------

TEST(Control, TheSameEventsGiveTheSameCommands) {
  Driver driver(
      elastic("events { at: \"10.5s\" preempt { hosts: [0] notice: \"60s\" } }\n"
              "events { at: \"30s\" degrade { devices: [3] factor: 0.5 } }",
              "checkpoint { every_steps: 4 host_memory_copy: true } redundancy { copies: 1 every_steps: 3 }"));
  driver.feed(3, StepReached{0, 3});
  driver.feed(4, StepReached{0, 4});
  driver.feed(4.5, BackgroundDone{0, 1});
  driver.feed(5, UserResize{0, 2});
  driver.feed(6, StepReached{0, 5});
  driver.feed(7, RoundDone{0, 0});
  driver.lose(7, {1});
  driver.feed(20, TimerFired{1});
  driver.done(25);
  driver.done(26);
  driver.lose(30, {2, 3});
  EXPECT_GE(driver.control().plans().size(), 3u);
  EXPECT_EQ(driver.log(), driver.log_again());
}

TEST(ControlStart, AbsentHostsAreNotUsedUntilTheyCome) {
  Driver driver(job_text("a", "gpus: 4 steps: 1000 configs { layout: \"tp2,dp2\" step_time: \"1s\" }") +
                "availability { generator: \"absent\" set: \"hosts=0 3\" }\n"
                "events { at: \"10s\" repair { hosts: [0] } }\n");
  EXPECT_EQ(driver.scenario().absent, device_ids({0, 1, 6, 7}));
  EXPECT_EQ(driver.only<Train>().devices, device_ids({2, 3, 4, 5}));
  EXPECT_EQ(std::get<scenario::Fail>(driver.only<Inject>().what).devices, device_ids({0, 1, 6, 7}))
      << "nor by anybody else";
  EXPECT_TRUE(driver.lose(0, {0, 1, 6, 7}, 0).empty());
  const auto again = testing::scenario_of(driver.scenario().resolved_text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->resolved_text, driver.scenario().resolved_text);
  EXPECT_EQ(again->absent, driver.scenario().absent);
}

}  // namespace
}  // namespace scalai::control
