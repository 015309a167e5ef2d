// A change under way when devices are lost: attempts, waiting, giving up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace reconfigure_test {

using testing::device_ids;
using testing::Driver;
using ::testing::HasSubstr;
using testing::job_text;

// tp2,dp2 with a replica on each of h0 and h1 (steps of 1 s), or one replica (2 s); until 1000 s.
std::string elastic(const std::string& more = "", const std::string& job_more = "") {
  return "until: \"1000s\"\n" +
         job_text("a",
                  "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: "
                  "\"2s\" } " +
                      job_more) +
         more;
}

// ---- failures while training ----------------------------------------------------------------------------------------

TEST(Failure, CreditsWholeStepsAndGoesOnFromTheSurvivors) {
  // Six of eight devices are taken, so that there are no spare ones.
  Driver driver(elastic() + job_text("b", "gpus: 4 configs { layout: \"tp4\" step_time: \"1s\" }"));
  driver.lose(10.75, {3});
  EXPECT_EQ(driver.only<Halt>().job, 0);
  const Execute execute = driver.only<Execute>();
  EXPECT_EQ(execute.plan->dst_devices(), device_ids({0, 1}));
  EXPECT_EQ(execute.plan->bytes().moved(), 0);
  EXPECT_EQ(execute.plan->bytes().from_storage, 0);
  driver.done(20);
  const ReconfigurationRecord record = driver.reconfiguration(0);
  EXPECT_EQ(record.at_s, 10.75);
  EXPECT_EQ(record.phases.detect, 5);
  EXPECT_EQ(record.phases.stop, 0);
  EXPECT_EQ(record.step, 10);
  EXPECT_EQ(record.rolled_back_steps, 0);
  EXPECT_EQ(record.cause, "lost g3");
  EXPECT_EQ(driver.job().steps, 10);
  EXPECT_EQ(driver.job().training_s, 10);
}

TEST(Failure, TakesSpareDevices) {
  Driver driver(elastic());
  driver.lose(10.75, {3});
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({0, 1, 2, 4}));
  for (const plan::Operation& operation : driver.only<Execute>().plan->operations()) {
    EXPECT_NE(operation.src, plan::Location::device(DeviceId(3)));
  }
}

TEST(Failure, OfADeviceOfNobodyIsIgnored) {
  Driver driver(elastic());
  EXPECT_TRUE(driver.lose(10.75, {7}).empty()) << driver.text();
  driver.feed(20.5, UserResize{0, 2});
  EXPECT_EQ(driver.only<Train>().until_step, 21);
}

TEST(Failure, WhileStoppingReplacesThePlannedChange) {
  Driver driver(elastic());
  driver.feed(10.25, UserResize{0, 2});
  driver.lose(10.5, {0}, 0.25);
  driver.only<Halt>();
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({2, 3})) << "the replica that is whole";
  EXPECT_TRUE(driver.feed(11, StepReached{0, 11}).empty()) << "its step never ended";
  driver.done(20);
  EXPECT_EQ(driver.job().reconfigurations.size(), 1u);
  EXPECT_EQ(driver.job().steps, 10);
}

TEST(Failure, TwoInQuickSuccession) {
  Driver driver(elastic());
  driver.lose(10.75, {3});
  driver.lose(11, {2});
  driver.only<Abort>();
  EXPECT_TRUE(driver.none<Halt>());
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({0, 1, 4, 5}));
  driver.done(20);
  const ReconfigurationRecord record = driver.reconfiguration(0);
  EXPECT_EQ(driver.job().reconfigurations.size(), 1u);
  EXPECT_EQ(record.aborted_attempts, 1);
  EXPECT_EQ(record.phases.aborted, 0.25);
  EXPECT_EQ(record.cause, "lost g3; lost g2");
}

TEST(Failure, NoticedAfterTheCommitCountsFromTheNewStart) {
  Driver driver(elastic("events { at: \"10s\" redeploy { devices: [0, 2, 4, 6] } }"));
  driver.feed(10, TimerFired{1});
  driver.feed(10, StepReached{0, 10});
  driver.done(18);
  driver.lose(17, {0});
  driver.only<Halt>();
  driver.done(30);
  const ReconfigurationRecord first = driver.reconfiguration(0), second = driver.reconfiguration(1);
  EXPECT_EQ(driver.job().steps, 10);
  EXPECT_EQ(second.step, 10);
  EXPECT_GE(second.resumed_s - second.phases.total(), first.resumed_s) << "pauses do not overlap";
}

// ---- failures during a reconfiguration ------------------------------------------------------------------------------

TEST(Abort, TheNextAttemptStartsFromTheOldEpochsSurvivors) {
  Driver driver(elastic());
  driver.feed(10, UserResize{0, 2});
  driver.feed(10, StepReached{0, 10});
  driver.feed(11, RoundDone{0, 0});
  driver.lose(11.5, {0}, 1.5);  // a target
  driver.only<Abort>();
  const Execute second = driver.only<Execute>();
  EXPECT_EQ(second.plan->dst_devices(), device_ids({2, 3})) << "the replica that is whole";
  EXPECT_EQ(second.plan->src_devices(), device_ids({0, 1, 2, 3}));
  EXPECT_EQ(second.reconfiguration, 1);
  driver.done(20);
  EXPECT_EQ(driver.reconfiguration(0).aborted_attempts, 1);
  EXPECT_EQ(driver.reconfiguration(0).phases.aborted, 3);
  EXPECT_EQ(driver.control().plans().size(), 2u);
}

TEST(Abort, ALostSourceCountsEvenIfItIsNoTarget) {
  Driver driver(elastic());
  driver.feed(10, UserResize{0, 2});
  driver.feed(10, StepReached{0, 10});
  driver.lose(11, {3}, 1);
  driver.only<Abort>();
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({0, 1}));
}

TEST(Abort, DevicesThatAreNotInvolvedAreIgnored) {
  Driver driver(elastic());
  driver.feed(10, UserResize{0, 2});
  driver.feed(10, StepReached{0, 10});
  EXPECT_TRUE(driver.lose(11, {6, 7}, 1).empty()) << driver.text();
}

TEST(Abort, WithoutADeviceLeftToGoToTheJobWaits) {
  Driver driver(elastic());
  driver.feed(10, UserResize{0, 2});
  driver.feed(10, StepReached{0, 10});
  driver.lose(11, {1, 2, 3, 4, 5, 6, 7}, 1);
  driver.only<Abort>();
  EXPECT_TRUE(driver.none<Execute>());
  EXPECT_EQ(driver.job().state, "waiting");
  EXPECT_EQ(driver.reconfiguration(0).aborted_attempts, 1);
  EXPECT_FALSE(driver.reconfiguration(0).completed);
}

// ---- requests from outside ------------------------------------------------------------------------------------------

TEST(UserSave, WritesACheckpointAtTheNextBoundaryAndGoesOn) {
  Driver driver(elastic());
  driver.feed(3.5, UserSave{0});
  EXPECT_EQ(driver.only<Train>().until_step, 4);
  driver.feed(4, StepReached{0, 4});
  const Background first = driver.only<Background>();
  EXPECT_EQ(first.what, "checkpoint");
  EXPECT_EQ(first.step, 4);
  EXPECT_GT(driver.only<Train>().until_step, 5);
  // While one is written another one waits for it.
  driver.feed(4.5, UserSave{0});
  driver.feed(5, StepReached{0, 5});
  EXPECT_TRUE(driver.none<Background>());
  EXPECT_EQ(driver.only<Train>().until_step, 6);
  driver.feed(5.5, BackgroundDone{0, first.tag});
  driver.feed(6, StepReached{0, 6});
  EXPECT_EQ(driver.only<Background>().step, 6);
  EXPECT_EQ(driver.log_again(), driver.log());
}

TEST(UserStop, WritesACheckpointAtTheNextBoundaryAndIsOver) {
  Driver driver(elastic());
  driver.feed(3.5, UserStop{});
  EXPECT_EQ(driver.only<Train>().until_step, 4);
  driver.feed(4, StepReached{0, 4});
  const Background last = driver.only<Background>();
  EXPECT_EQ(last.what, "checkpoint");
  EXPECT_EQ(last.step, 4);
  EXPECT_TRUE(driver.none<Train>());
  EXPECT_EQ(driver.job().state, "running");
  driver.feed(6, BackgroundDone{0, last.tag});
  driver.only<Stop>();
  EXPECT_EQ(driver.job().state, "stopped");
  EXPECT_EQ(driver.job().steps, 4);
  EXPECT_EQ(driver.job().wall_s, 6);
}

TEST(UserStop, IsOverOnlyWithItsCheckpoint) {
  Driver driver(elastic());
  driver.feed(3.5, UserStop{});
  driver.feed(4, StepReached{0, 4});
  for (int failed = 0; failed < 3; ++failed) driver.feed(4, CopyLost{0, driver.only<Background>().tag});
  EXPECT_EQ(driver.job().state, "running");
  driver.feed(6, BackgroundDone{0, driver.only<Background>().tag});
  EXPECT_EQ(driver.job().state, "stopped");
}

TEST(UserStop, LetsAReconfigurationEndAndSurvivesALoss) {
  Driver driver(elastic());
  driver.lose(3.5, {3}, 0.5);
  driver.only<Execute>();
  EXPECT_TRUE(driver.feed(5, UserStop{}).empty());
  driver.done(6);
  driver.only<Commit>();
  const int64_t tag = driver.only<Background>().tag;
  driver.lose(6.5, {0}, 0.5);
  EXPECT_EQ(driver.only<Forget>().snapshot, tag);
  EXPECT_TRUE(driver.only<Execute>().plan->feasible());
  EXPECT_TRUE(driver.feed(8, BackgroundDone{0, tag}).empty());
  driver.done(20);
  driver.feed(22, BackgroundDone{0, driver.only<Background>().tag});
  driver.only<Stop>();
  EXPECT_EQ(driver.job().state, "stopped");
  EXPECT_EQ(driver.log_again(), driver.log());
}

TEST(UserStop, JobsThatWaitHaveNothingToWrite) {
  Driver driver("until: \"1000s\"\n" + job_text("a", "devices: [0, 2] configs { layout: \"tp2\" step_time: \"1s\" }"));
  driver.lose(5, {2});
  ASSERT_EQ(driver.job().state, "waiting");
  driver.feed(11, UserStop{});
  driver.only<Stop>();
  EXPECT_EQ(driver.job().state, "stopped");
}

TEST(UserDrain, JobsLeaveTheHostAndDoNotComeBack) {
  Driver driver(elastic());
  driver.feed(3.5, UserDrain{device_ids({2, 3})});
  driver.feed(4, StepReached{0, 4});
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({0, 1, 4, 5}));
  driver.done(10);
  driver.feed(20.5, UserResize{0, 2});
  driver.feed(21, StepReached{0, 15});
  driver.done(25);
  driver.feed(30.5, UserResize{0, 4});
  driver.feed(33, StepReached{0, 19});
  for (const DeviceId device : driver.only<Execute>().plan->dst_devices())
    EXPECT_TRUE(device != DeviceId(2) && device != DeviceId(3));
  const std::vector<JobStatus> status = driver.control().status(33);
  EXPECT_EQ(status[0].state, "reconfiguring");
  EXPECT_EQ(status[0].layout, "tp2");
  EXPECT_EQ(status[0].reconfigurations, 2);
}

// ---- coming back ----------------------------------------------------------------------------------------------------

TEST(Repair, GrowsBack) {
  Driver driver(
      elastic("events { at: \"5s\" fail { hosts: [1, 2, 3] } } events { at: \"50.5s\" repair { hosts: [1] } }"));
  driver.feed(5, TimerFired{1});
  driver.lose(5, {2, 3, 4, 5, 6, 7});
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({0, 1}));
  driver.done(20);
  driver.feed(50.5, TimerFired{2});
  EXPECT_EQ(driver.only<Train>().until_step, 21);
  driver.feed(52, StepReached{0, 21});
  const Execute execute = driver.only<Execute>();
  EXPECT_EQ(execute.plan->dst_devices(), device_ids({0, 1, 2, 3}));
  EXPECT_GT(execute.plan->bytes().cross_host, 0) << "what came back is empty";
}

TEST(Repair, WhatComesBackHasLostItsContent) {
  // The job waits while both devices are away; one comes back, but not what it held.
  Driver driver("until: \"1000s\"\n" + job_text("a", "devices: [0, 2] configs { layout: \"tp2\" step_time: \"1s\" }") +
                "events { at: \"5s\" fail { devices: [2] } } events { at: \"50s\" repair { devices: [2] } }");
  driver.feed(5, TimerFired{1});
  driver.lose(5, {2});
  EXPECT_EQ(driver.job().state, "waiting");
  driver.feed(50, TimerFired{2});
  EXPECT_EQ(driver.job().state, "failed");
}

TEST(Repair, OfTooFewDevicesToGrowMovesNothing) {
  Driver driver(
      elastic("events { at: \"5s\" fail { devices: [0, 1, 4, 5, 6, 7] } } "
              "events { at: \"50.5s\" repair { devices: [0] } }"));
  driver.feed(5, TimerFired{1});
  driver.lose(5, {0, 1, 4, 5, 6, 7});
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({2, 3}));
  driver.done(20);
  driver.feed(50.5, TimerFired{2});
  EXPECT_TRUE(driver.none<Train>()) << driver.text();
}

TEST(DpOnly, WaitsForAWholeReplicaAndResumes) {
  const std::string text =
      "until: \"1000s\"\n" +
      job_text("a",
               "gpus: 4 configs { layout: \"tp4\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: \"2s\" }");
  Driver driver(text, "dp-only");
  driver.feed(10.5, UserResize{0, 2});
  driver.feed(11, StepReached{0, 11});
  EXPECT_EQ(driver.job().state, "waiting");
  EXPECT_TRUE(driver.none<Execute>());
  driver.feed(100, UserResize{0, 4});
  const Execute execute = driver.only<Execute>();
  EXPECT_EQ(execute.plan->to(), "tp4");
  EXPECT_FALSE(execute.stage.empty());
  driver.done(120);
  EXPECT_EQ(driver.only<Train>().from_step, 11);
  EXPECT_EQ(driver.job().training_s, 11);
  EXPECT_NEAR(driver.job().gpu_hours, (4 * 11 + 2 * 89 + 2 * 20) / 3600.0, 0.03);

  Driver free(text, "tenplex");
  free.feed(10.5, UserResize{0, 2});
  free.feed(11, StepReached{0, 11});
  EXPECT_EQ(free.only<Execute>().plan->to(), "tp2");
}

// Nothing fits what the notice leaves: the state goes to storage before its devices are taken.
TEST(DpOnly, SavesBeforeDevicesAreTakenThatItCannotReplace) {
  const std::string text =
      "until: \"1000s\"\n"
      "events { at: \"10.5s\" preempt { devices: [4, 5, 6, 7] notice: \"60s\" } }\n" +
      job_text("a",
               "gpus: 8 checkpoint { every_steps: 100 } "
               "configs { layout: \"tp4,pp2\" step_time: \"1s\" }");
  Driver driver(text, "dp-only");
  driver.feed(10.5, TimerFired{1});
  driver.feed(driver.all<ArmTimer>()[0].at_s, TimerFired{2});
  driver.feed(70, StepReached{0, 70});
  const Background saved = driver.only<Background>();
  EXPECT_EQ(saved.step, 70);
  EXPECT_EQ(saved.what, "checkpoint");
  driver.feed(70.25, BackgroundDone{0, saved.tag});
  EXPECT_EQ(driver.job().state, "waiting");
}

// ---- checkpoint-restart ---------------------------------------------------------------------------------------------

// 7 steps are done, 4 of them in a checkpoint: a change by plan writes the 7th first, and nothing is run again.
TEST(CheckpointRestart, APlannedChangeSavesFirst) {
  Driver driver(elastic("", "checkpoint { every_steps: 4 }"), "checkpoint-restart");
  driver.lose(1, {7}, 0.5);  // nobody's
  driver.feed(4, StepReached{0, 4});
  driver.feed(4.5, BackgroundDone{0, driver.only<Background>().tag});
  driver.feed(6.5, UserResize{0, 2});
  driver.feed(7, StepReached{0, 7});
  EXPECT_TRUE(driver.none<Execute>());
  const Background saved = driver.only<Background>();
  EXPECT_EQ(saved.step, 7);
  driver.feed(9, BackgroundDone{0, saved.tag});
  EXPECT_EQ(driver.only<Execute>().step, 7);
  driver.done(100);
  EXPECT_EQ(driver.reconfiguration(0).rolled_back_steps, 0);
  EXPECT_EQ(driver.reconfiguration(0).phases.stop, 2.5) << "half a step, and 2 s for the checkpoint";
  EXPECT_EQ(driver.log(), driver.log_again());
}

// The notice ends in the middle of the write.
TEST(CheckpointRestart, ALossWhileItSavesGoesBack) {
  Driver driver(
      elastic("events { at: \"6.5s\" preempt { devices: 3 notice: \"1s\" } }", "checkpoint { every_steps: 4 }"),
      "checkpoint-restart");
  driver.feed(4, StepReached{0, 4});
  driver.feed(4.5, BackgroundDone{0, driver.only<Background>().tag});
  driver.feed(6.5, TimerFired{1});
  driver.feed(7, StepReached{0, 7});
  const int64_t tag = driver.only<Background>().tag;
  driver.lose(7.5, {3}, 0.5);
  EXPECT_EQ(driver.only<Execute>().step, 4);
  driver.feed(9, BackgroundDone{0, tag});
  EXPECT_TRUE(driver.none<Execute>());
  driver.done(100);
  EXPECT_EQ(driver.reconfiguration(0).rolled_back_steps, 3);
}

TEST(CheckpointRestart, ACheckpointThatFailsOrARunThatStopsEndsTheWait) {
  Driver driver(elastic("", "checkpoint { every_steps: 4 }"), "checkpoint-restart");
  driver.feed(2.5, UserResize{0, 2});
  driver.feed(3, StepReached{0, 3});
  driver.feed(5, CopyLost{0, driver.only<Background>().tag});
  EXPECT_EQ(driver.only<Execute>().step, 0);
  Driver stopped(elastic("", "checkpoint { every_steps: 4 }"), "checkpoint-restart");
  stopped.feed(2.5, UserResize{0, 2});
  stopped.feed(3, StepReached{0, 3});
  const int64_t tag = stopped.only<Background>().tag;
  stopped.feed(4, UserStop{});
  stopped.feed(5, BackgroundDone{0, tag});
  stopped.feed(6, BackgroundDone{0, stopped.only<Background>().tag});
  EXPECT_EQ(stopped.job().state, "stopped");
}

TEST(CheckpointRestart, WithoutThatEveryChangeGoesBackToTheLastCheckpoint) {
  Driver driver(elastic("", "checkpoint { every_steps: 4 before_change: false }"), "checkpoint-restart");
  driver.feed(4, StepReached{0, 4});
  driver.feed(4.5, BackgroundDone{0, driver.only<Background>().tag});
  driver.feed(6.5, UserResize{0, 2});
  driver.feed(7, StepReached{0, 7});
  const Execute execute = driver.only<Execute>();
  EXPECT_EQ(execute.plan->bytes().kept + execute.plan->bytes().moved(), 0);
  EXPECT_GT(execute.plan->bytes().from_storage, 0);
  driver.done(100);
  EXPECT_EQ(driver.reconfiguration(0).rolled_back_steps, 3);
}

TEST(CheckpointRestart, WithoutACheckpointTheJobFailsAndSaysSo) {
  Driver driver(elastic(), "checkpoint-restart");
  driver.feed(6.5, UserResize{0, 2});
  driver.feed(7, StepReached{0, 7});
  EXPECT_EQ(driver.job().state, "failed");
  EXPECT_EQ(driver.job().failure, "the strategy restarts from checkpoints, and none was ever completed");
}

}  // namespace reconfigure_test
}  // namespace scalai::control
