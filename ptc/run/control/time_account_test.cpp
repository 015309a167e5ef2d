#include "ptc/run/control/internal/time_account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace {

using testing::Driver;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::job_text;

Training training(double start_s, int64_t from, double step_s) {
  return {.start_s = start_s, .from_step = from, .until_step = 1000, .step_s = step_s};
}

TEST(TimeAccount, EachStretchBeginsWhereTheOneBeforeEnds) {
  TimeAccount time;
  time.begin(10);
  time.wait_for("queued");
  time.waited(15);
  time.wait_for("no layout fits 3 GPUs");
  time.waited(17);
  time.changed(20);
  time.changed(19);  // known late: nothing is left of it
  time.trained(training(21, 0, 2), 3, 28);
  time.stood_for_copy(30);
  const DowntimeRecord& down = time.down();
  EXPECT_EQ(down.waiting_s, 7);
  ASSERT_EQ(down.waits.size(), 2u);
  EXPECT_EQ(down.waits[0].reason, "queued");
  EXPECT_EQ(down.waits[0].seconds, 5);
  EXPECT_EQ(down.waits[1].seconds, 2);
  EXPECT_EQ(down.reconfigurations_s, 3);
  EXPECT_EQ(down.snapshots_s, 1 + 2) << "before the first step, and after the last";
  EXPECT_EQ(down.cut_off_s, 1) << "three steps of 2 s in 7 s";
  EXPECT_EQ(down.total(), (30 - 10) - 3 * 2) << "all but the steps";
}

TEST(TimeAccount, OneReasonIsOneEntry) {
  TimeAccount time;
  time.wait_for("queued");
  time.waited(2);
  time.changed(3);
  time.waited(7);
  ASSERT_EQ(time.down().waits.size(), 1u);
  EXPECT_EQ(time.down().waits[0].seconds, 2 + 4);
  EXPECT_FALSE(time.down().waits[0].until_end);
  time.wait_to_the_end();
  EXPECT_TRUE(time.down().waits[0].until_end);
}

TEST(TimeAccount, AStepOnALinkThatIsDownIsAWait) {
  TimeAccount time;
  time.trained(training(1, 0, std::numeric_limits<double>::infinity()), 0, 5);
  EXPECT_EQ(time.down().snapshots_s, 1);
  EXPECT_EQ(time.down().waiting_s, 4);
  EXPECT_EQ(time.down().waits.at(0).reason, "a link is down");
}

// Steps 0 to 3 take 2 s each, 4 to 9 take 3 s. Back to step 6: 4 · 3 s. Again 3 of 5 s to step 9, then back to step 2:
// 3 · 5 s, the two of 3 s that were left, and 2 of 2 s.
TEST(TimeAccount, StepsThatARollbackTakesCountAsTheyWere) {
  TimeAccount time;
  time.trained(training(0, 0, 2), 2, 4);
  time.trained(training(4, 2, 2), 2, 8);
  time.trained(training(8, 4, 3), 6, 26);
  time.roll_back(10);
  EXPECT_EQ(time.down().run_again_s, 0);
  time.roll_back(6);
  EXPECT_EQ(time.down().run_again_s, 4 * 3);
  time.trained(training(26, 6, 5), 3, 41);
  time.roll_back(2);
  EXPECT_EQ(time.down().run_again_s, 4 * 3 + 3 * 5 + 2 * 3 + 2 * 2);
  EXPECT_EQ(time.down().cut_off_s, 0);
}

std::string until(const std::string& events, const std::string& job) {
  return "until: \"1000s\"\n" + job_text("a", job) + events;
}

// Steps of 1 s on two hosts, a checkpoint after step 4, for which training stands still for `stall_s`. One of its two
// GPUs fails half a second into step 6 (from 0) and is back at 20 s; the change takes until 30 s, back to step 4.
//
//     0      4   stall   4 + stall    6 + stall    6.5 + stall        20        30        34
//     | 4 steps |  stall  |  2 steps    | step cut off | waiting       | pause   | 4 steps |
TEST(Downtime, IsTheSumOfItsCauses) {
  Driver driver(until("events { at: \"6s\" fail { devices: [2] } } events { at: \"20s\" repair { devices: [2] } }",
                      "devices: [0, 2] configs { layout: \"tp2\" step_time: \"1s\" } checkpoint { every_steps: 4 }"));
  driver.feed(4, StepReached{0, 4});
  const double stall_s = driver.only<Train>().start_s - 4;
  ASSERT_GT(stall_s, 0);
  driver.feed(5, BackgroundDone{0, driver.only<Background>().tag});
  driver.lose(6.5 + stall_s, {2});
  EXPECT_EQ(driver.job().state, "waiting");
  EXPECT_TRUE(driver.job().downtime.waits.at(0).until_end);
  driver.feed(20, TimerFired{2});
  driver.done(30);
  driver.feed(34, StepReached{0, 8});
  const JobRecord job = driver.job();
  EXPECT_DOUBLE_EQ(job.downtime.reconfigurations_s, 10);
  ASSERT_EQ(job.downtime.waits.size(), 1u);
  EXPECT_EQ(job.downtime.waits[0].reason, "no layout fits 1 GPUs (1 of 8 lost or drained, of those named)");
  EXPECT_FALSE(job.downtime.waits[0].until_end);
  EXPECT_DOUBLE_EQ(job.downtime.waiting_s, 20 - (6.5 + stall_s));
  EXPECT_DOUBLE_EQ(job.downtime.run_again_s, 2);
  EXPECT_DOUBLE_EQ(job.downtime.cut_off_s, 0.5);
  EXPECT_DOUBLE_EQ(job.downtime.snapshots_s, stall_s);
  EXPECT_EQ(job.training_s, 4 + 2 + 4);
  EXPECT_DOUBLE_EQ(job.downtime_s, 34 - 10 + 2) << "all but the steps that count";
  EXPECT_DOUBLE_EQ(job.downtime.total(), job.downtime_s);
}

// The last 0.5 s before the request belong to a step that the job finishes: the pause has them, the downtime does not.
TEST(Downtime, TheStepThatIsFinishedFirstIsTraining) {
  Driver driver(until("",
                      "gpus: 2 configs { layout: \"dp2\" step_time: \"1s\" } "
                      "configs { layout: \"dp1\" step_time: \"1s\" }"));
  driver.feed(2.5, UserResize{0, 1});
  driver.feed(3, StepReached{0, 3});
  driver.done(7, 4);
  driver.feed(8.25, UserResize{0, 1});
  const JobRecord job = driver.job();
  EXPECT_EQ(job.reconfigurations.at(0).phases.total(), 0.5 + 4);
  EXPECT_EQ(job.downtime.reconfigurations_s, 4);
  EXPECT_EQ(job.downtime.cut_off_s, 0.25) << "the step under way at the end";
  EXPECT_EQ(job.downtime_s, 8.25 - 4);
}

TEST(Downtime, ALastCheckpointOnRequestIsAStall) {
  Driver driver(until("", "gpus: 2 configs { layout: \"dp2\" step_time: \"1s\" }"));
  driver.feed(2.5, UserStop{});
  driver.feed(3, StepReached{0, 3});
  driver.feed(10, BackgroundDone{0, driver.only<Background>().tag});
  EXPECT_EQ(driver.job().state, "stopped");
  EXPECT_EQ(driver.job().downtime.snapshots_s, 7);
  EXPECT_EQ(driver.job().downtime_s, 7);
}

TEST(Downtime, JobsThatComeLaterWaitFromTheirSubmission) {
  Driver driver("until: \"1000s\"\n" +
                job_text("a", "gpus: 8 steps: 10 configs { layout: \"dp8\" step_time: \"1s\" }") +
                job_text("b", "gpus: 8 submit: \"3s\" configs { layout: \"dp8\" step_time: \"1s\" }"));
  driver.feed(3, TimerFired{1});
  driver.feed(10, StepReached{0, 10});
  driver.done(12, 2, 1);
  const JobRecord job = driver.job(1);
  ASSERT_EQ(job.downtime.waits.size(), 1u);
  EXPECT_EQ(job.downtime.waits[0].reason, "queued: other jobs have GPUs that it needs");
  EXPECT_EQ(job.downtime.waits[0].seconds, 7);
  EXPECT_EQ(job.downtime.reconfigurations_s, 2);
  EXPECT_EQ(job.downtime_s, 9);
}

std::vector<std::string> effects(const LossRecord& loss) {
  std::vector<std::string> list;
  for (const LossEffect& effect : loss.effects)
    list.push_back(fmt::format("{} {} {}", effect.job, effect.outcome, effect.reconfiguration));
  return list;
}

TEST(Losses, AreAllThereUsedOrNot) {
  Driver driver(until("",
                      "devices: [0, 2] configs { layout: \"dp2\" step_time: \"1s\" } "
                      "configs { layout: \"dp1\" step_time: \"1s\" }"));
  driver.lose(1.5, {6, 7});
  driver.lose(10.5, {2});
  driver.lose(16, {3});
  driver.done(30);
  driver.lose(40.5, {0});
  const RunReport report = driver.report();
  ASSERT_EQ(report.losses.size(), 4u);
  EXPECT_EQ(report.losses[0].at_s, 1.5);
  EXPECT_EQ(report.losses[0].noticed_s, 6.5);
  EXPECT_EQ(device_list(report.losses[0].devices), "g6-g7");
  EXPECT_THAT(effects(report.losses[0]), IsEmpty()) << "no job used them";
  EXPECT_THAT(effects(report.losses[1]), ElementsAre("0 reconfigures 1"));
  EXPECT_THAT(effects(report.losses[2]), IsEmpty());
  EXPECT_THAT(effects(report.losses[3]), ElementsAre("0 waits 0"));
}

}  // namespace
}  // namespace scalai::control
