// `parallel: choose` in the control loop, with the real search on a small model.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace {

using testing::Driver;
using ::testing::HasSubstr;

// Batches so large that all devices are worth having.
std::string job_that_chooses(const std::string& name, const std::string& more) {
  return fmt::format("jobs {{ name: \"{}\" model: \"gpt2\" global_batch: 4096 parallel: choose {} }}\n", name, more);
}
std::string choosing(const std::string& job, const std::string& more = "") {
  return "until: \"1000000s\"\n" + job_that_chooses("a", job) + more;
}

// Stops at the boundary that the last Train names, and goes through the reconfiguration.
void go_through(Driver& driver, double at_s) {
  const Train stop = driver.only<Train>();
  driver.feed(at_s, StepReached{0, stop.until_step});
  driver.only<Execute>();
  driver.done(at_s + 10);
}

TEST(Choose, TheNumberOfDevicesLeftNeedNotBeOneThatDivides) {
  Driver driver(choosing("gpus: 8 checkpoint { every_steps: 5 }"));
  EXPECT_EQ(driver.only<Train>().devices.size(), 8u);
  driver.lose(10.25, {5});
  const Execute execute = driver.only<Execute>();
  const size_t used = execute.to->device_of_rank.size();
  EXPECT_GE(used, 4u) << "the largest number up to 7 that serves";
  EXPECT_LE(used, 7u);
  for (const DeviceId device : execute.to->device_of_rank) EXPECT_NE(device.value, 5);
  driver.done(30);
  const std::vector<ConfigurationRecord> list = driver.job().configurations;
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].gpus, 8);
  EXPECT_EQ(list[1].gpus, static_cast<int>(used));
  EXPECT_EQ(list[1].layout, driver.reconfiguration(0).to);
  EXPECT_GT(*list[0].mfu, 0);
  EXPECT_EQ(driver.log(), driver.log_again());
}

TEST(Choose, PinsHold) {
  Driver driver(
      choosing("gpus: 8 micro_batch: 1 recompute: \"full\" search { pins: \"tp2,cp1,pp1\" } "
               "checkpoint { every_steps: 5 }"));
  const ConfigurationRecord first = driver.job().configurations.at(0);
  EXPECT_THAT(first.layout, HasSubstr("tp2"));
  EXPECT_EQ(first.micro_batch, 1);
  EXPECT_EQ(first.recompute, "full");
  driver.lose(10.25, {5, 6});
  EXPECT_THAT(driver.only<Execute>().to->name, HasSubstr("tp2"));
}

TEST(Choose, WaitsWhenNothingFitsAndComesBack) {
  Driver driver(
      choosing("gpus: 8 search { pins: \"dp8,tp1,pp1,cp1\" } checkpoint { every_steps: 5 }",
               "events { at: \"10s\" fail { devices: [3] } }\nevents { at: \"50s\" repair { devices: [3] } }"));
  driver.feed(10, TimerFired{1});
  driver.lose(10, {3});
  EXPECT_EQ(driver.job().state, "waiting");
  driver.feed(50, TimerFired{2});
  EXPECT_EQ(driver.only<Execute>().to->device_of_rank.size(), 8u);
}

TEST(Choose, OnlyDataParallelismChangesWhereTheStrategySaysSo) {
  Driver driver(choosing("gpus: 8 search { pins: \"tp2,pp1,cp1\" }"), "dp-only");
  EXPECT_EQ(driver.job().configurations.at(0).layout, "tp2,dp4,zero1");
  driver.feed(0.5, UserResize{0, 7});
  go_through(driver, 100);
  EXPECT_EQ(driver.reconfiguration(0).to, "tp2,dp2,zero1");
}

TEST(Choose, TheSameAnswerIsNoReasonToMove) {
  Driver driver(choosing("gpus: 8"));
  EXPECT_TRUE(driver.feed(5, UserResize{0, 8}).empty()) << driver.text();
  EXPECT_TRUE(driver.job().reconfigurations.empty());
}

// A restart of 65 s against steps that take half as long: it depends on how long that lasts.
TEST(Choose, WhatPaysOffDependsOnTheHorizon) {
  const auto grows = [](const std::string& horizon) {
    Driver driver(
        choosing("gpus: 4 search { pins: \"tp1,pp1,cp1\" objective: \"pay-off\" horizon: \"" + horizon + "\" }"),
        "tenplex");
    const double step_s = *driver.job().configurations.at(0).step_s;
    driver.feed(0.5 * step_s, UserResize{0, 8});
    const bool moves = !driver.none<Train>();
    EXPECT_EQ(driver.log(), driver.log_again());
    return moves;
  };
  EXPECT_FALSE(grows("60s")) << "less than the restart takes";
  EXPECT_TRUE(grows("1000h"));
}

TEST(Choose, WhatIsTakenAwayIsLeftWhateverItCosts) {
  Driver driver(choosing("gpus: 8 search { objective: \"pay-off\" horizon: \"60s\" }"), "tenplex");
  driver.feed(0.5, UserResize{0, 4});
  go_through(driver, 20);
  EXPECT_LE(driver.reconfiguration(0).to_gpus, 4);
}

// No way anywhere is not a reason to wait for one.
TEST(Choose, WithoutACheckpointTheStrategyThatNeedsOneFails) {
  Driver driver(choosing("gpus: 8 search { objective: \"pay-off\" }"), "checkpoint-restart");
  driver.feed(0.5, UserResize{0, 4});
  driver.feed(20, StepReached{0, driver.only<Train>().until_step});
  EXPECT_EQ(driver.job().state, "failed");
  EXPECT_THAT(driver.job().failure, HasSubstr("none was ever completed"));
}

// At a twentieth of their speed the first two would only slow the others.
TEST(Choose, SlowDevicesAreLeftOutWhereverTheyStand) {
  Driver driver(choosing("gpus: 8", "events { at: \"1s\" degrade { devices: [0, 1] factor: 0.05 } }\n"));
  driver.feed(1, TimerFired{1});
  driver.feed(1.5, UserResize{0, 7});
  const Train stop = driver.only<Train>();
  driver.feed(50, StepReached{0, stop.until_step});
  const Execute execute = driver.only<Execute>();
  EXPECT_GE(execute.to->device_of_rank.size(), 4u);
  EXPECT_LE(execute.to->device_of_rank.size(), 6u);
  for (const DeviceId device : execute.to->device_of_rank) EXPECT_GE(device.value, 2);
}

// Two jobs that choose share what is there; what one leaves the other may take.
TEST(Choose, DevicesThatBecomeFreeAreConsidered) {
  Driver driver("until: \"1000000s\"\n" + job_that_chooses("a", "gpus: 4 steps: 5") + job_that_chooses("b", "gpus: 4"));
  driver.feed(0.001, UserResize{1, 8});
  EXPECT_TRUE(driver.none<Execute>());
  driver.feed(50, StepReached{0, 5});
  const Train stop = driver.only<Train>();
  EXPECT_EQ(stop.job, 1);
  driver.feed(51, StepReached{1, stop.until_step});
  EXPECT_GT(driver.only<Execute>().to->device_of_rank.size(), 4u);
}

// A place elsewhere in the cluster that is worth no more.
TEST(Choose, WhatAnotherJobLeavesIsNoReasonToMove) {
  Driver driver("until: \"1000000s\"\n" + job_that_chooses("a", "gpus: 4 steps: 5") + job_that_chooses("b", "gpus: 4"));
  driver.feed(50, StepReached{0, 5});
  EXPECT_EQ(driver.job(0).state, "complete");
  EXPECT_TRUE(driver.none<Execute>()) << driver.text();
  EXPECT_TRUE(driver.none<Train>()) << driver.text();
}

// The slow device holds state that would be kept: it is still left out.
TEST(Choose, ItRunsWhereItWasPriced) {
  Driver driver(choosing("gpus: 8", "events { at: \"1s\" degrade { devices: [0] factor: 0.05 } }\n"));
  driver.feed(1, TimerFired{1});
  driver.feed(50, StepReached{0, driver.only<Train>().until_step});
  driver.feed(1000, UserResize{0, 8});
  const Train stop = driver.only<Train>();
  driver.feed(2000, StepReached{0, stop.until_step});
  const Execute execute = driver.only<Execute>();
  for (const DeviceId device : execute.to->device_of_rank) EXPECT_NE(device.value, 0);
  driver.done(2010);
  EXPECT_LT(*driver.job().configurations.back().step_s, *driver.job().configurations.at(1).step_s);
}

// Eight replicas become seven: 4,096 = 585 · 7 + 1, so that 4,095 is the nearest batch (0.024 %).
TEST(Choose, ABatchThatMayChangeALittleKeepsGpusAtWork) {
  const auto with_seven = [](const std::string& tolerance, const std::function<void(Driver&)>& check) {
    Driver driver(choosing("gpus: 8 micro_batch: 1 search { pins: \"tp1,pp1,cp1\" " + tolerance +
                           " } checkpoint { every_steps: 1000 }"));
    const double step_s = driver.only<Train>().step_s;
    driver.feed(1.5 * step_s, UserResize{0, 7});
    driver.feed(2 * step_s, StepReached{0, 2});
    driver.only<Execute>();
    driver.done(1000);
    driver.feed(1000 + 3.5 * driver.only<Train>().step_s, UserResize{0, 8});
    check(driver);
  };
  with_seven("", [](Driver& driver) {
    const ConfigurationRecord last = driver.job().configurations.back();
    EXPECT_EQ(last.gpus, 4);
    EXPECT_EQ(last.global_batch, 4096);
    EXPECT_EQ(last.idle,
              "4 of 7 GPUs: no valid layout of 5 to 7; dp7,zero1 on 7 GPUs would be faster, but dp 7 · micro-batch 1 "
              "does not divide the batch of 4096 (with batch_tolerance 0.001: 4095 would)");
    EXPECT_EQ(driver.job().samples, (2 + 3) * 4096);
  });
  with_seven("batch_tolerance: 0.001", [](Driver& driver) {
    const ConfigurationRecord last = driver.job().configurations.back();
    EXPECT_EQ(last.gpus, 7);
    EXPECT_EQ(last.global_batch, 4095);
    EXPECT_EQ(last.idle, "");
    EXPECT_EQ(driver.job().steps, 2 + 3);
    EXPECT_EQ(driver.job().samples, 2 * 4096 + 3 * 4095);
    EXPECT_EQ(driver.log(), driver.log_again());
  });
}

TEST(Choose, AJobThatWaitsSaysWhy) {
  Driver driver(
      choosing("gpus: 8 search { pins: \"dp8,tp1,pp1,cp1\" } checkpoint { every_steps: 5 }",
               "events { at: \"10s\" fail { devices: [3] } }\nevents { at: \"50s\" repair { devices: [3] } }"));
  driver.feed(10, TimerFired{1});
  driver.lose(10, {3});
  EXPECT_THAT(driver.job().failure, HasSubstr("need 8 GPUs, there are 7"));
  driver.feed(50, TimerFired{2});
  EXPECT_EQ(driver.job().failure, "");
}

}  // namespace
}  // namespace scalai::control
