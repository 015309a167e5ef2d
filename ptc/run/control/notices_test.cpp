#include "ptc/run/control/internal/notices.h"

#include <gtest/gtest.h>

#include <memory>

#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace notices_test {

using testing::Driver;
using testing::job_text;

// A stage on g0 of h0 and one on g2 of h1, which is taken. Its NIC sends 0.9 MB/s from 1 s on. Timers: 0 the end, 1 the
// slow link, 2 the notice at 10.5 s.
std::string staged(double notice_s, const std::string& step_time = "1s", const std::string& more = "") {
  return fmt::format(
             "until: \"1000s\"\ncosts {{ plan: \"0s\" transfer_start: \"0s\" detect: \"1s\" }}\n"
             "events {{ at: \"1s\" degrade {{ links: \"h1.nic0.up\" factor: 0.001 }} }}\n"
             "events {{ at: \"10.5s\" preempt {{ hosts: [1] notice: \"{}s\" }} }}\n",
             notice_s) +
         job_text("a", fmt::format("devices: [0, 2] configs {{ layout: \"pp2\" step_time: \"{}\" }} "
                                   "configs {{ layout: \"tp1\" step_time: \"2s\" }} {}",
                                   step_time, more));
}

// A step of 8 s does not end in time: it is given up, so that the steps before it are saved.
TEST(Notices, GivesUpAStepThatIsTooLong) {
  Driver driver(staged(7, "8s"));
  driver.feed(1, TimerFired{1});
  driver.feed(8, StepReached{0, 1});
  driver.feed(10.5, TimerFired{2});  // until 17.5 s; the step ends at 16 s
  EXPECT_EQ(driver.job().notices.at(0).answer, "leaves");
  driver.only<Halt>();
  EXPECT_EQ(driver.only<Execute>().step, 1);
  EXPECT_EQ(driver.job().downtime.cut_off_s, 2.5);
}

// Taken back at 20 s: the job trains on.
TEST(Notices, ANoticeThatIsTakenBackChangesNothing) {
  Driver driver(staged(500) + "events { at: \"20s\" repair { hosts: 1 } }\n");
  driver.feed(1, TimerFired{1});
  driver.feed(10.5, TimerFired{2});
  const double leaves_s = driver.all<ArmTimer>()[0].at_s;
  driver.feed(20, TimerFired{3});
  EXPECT_TRUE(driver.none<Train>());
  EXPECT_TRUE(driver.feed(leaves_s, TimerFired{4}).empty());
}

// A drain with a deadline: the job leaves at the next step boundary, and says what that saves.
TEST(Notices, ADrainWithADeadlineIsAnsweredAtOnce) {
  Driver driver(staged(900));
  driver.feed(1, TimerFired{1});
  driver.feed(3.5, UserDrain{testing::device_ids({2, 3}), 300.0});
  EXPECT_EQ(driver.only<Train>().until_step, 4);
  const NoticeRecord notice = driver.job().notices.at(0);
  EXPECT_EQ(notice.answer, "leaves");
  EXPECT_EQ(notice.deadline_s, 303.5);
  driver.feed(4, StepReached{0, 4});
  EXPECT_EQ(driver.only<Execute>().step, 4);
  EXPECT_EQ(driver.log(), driver.log_again());
}

// A checkpoint of S bytes by a NIC of 0.9 MB/s takes T. All is over after 2 T: it is written at the next boundary.
// Steps of 8 s end too late for T + 1 s: the step under way is given up. With T / 2 the checkpoint of step 1 is what
// stays, and that is said.
TEST(Notices, AStopWithADeadlineWritesTheCheckpointInTime) {
  const auto stopped = [](const std::string& step_time, double notice_s) {
    auto driver = std::make_unique<Driver>(staged(900, step_time, "checkpoint { every_steps: 1000 }"));
    driver->feed(1, TimerFired{1});
    driver->feed(8, StepReached{0, step_time == "8s" ? 1 : 8});
    driver->feed(8.25, UserStop{notice_s});
    return driver;
  };
  const NoticeRecord whole = stopped("1s", 1000)->job().notices.at(0);
  EXPECT_EQ(whole.answer, "checkpoint");
  const auto in_time = stopped("1s", 2 * whole.takes_s);
  EXPECT_EQ(in_time->only<Train>().until_step, 9);
  in_time->feed(9, StepReached{0, 9});
  EXPECT_EQ(in_time->only<Background>().step, 9);
  const auto given_up = stopped("8s", whole.takes_s + 1);
  given_up->only<Halt>();
  const Background last = given_up->only<Background>();
  EXPECT_EQ(last.step, 1);
  given_up->feed(10, BackgroundDone{0, last.tag});
  EXPECT_EQ(given_up->job().state, "stopped");
  EXPECT_EQ(given_up->job().steps, 1);
  EXPECT_EQ(given_up->log(), given_up->log_again());
  const NoticeRecord late = stopped("1s", whole.takes_s / 2)->job().notices.at(0);
  EXPECT_EQ(late.answer, "goes back");
  EXPECT_EQ(late.step, 0);
  EXPECT_EQ(late.repeated_steps, 8);
  EXPECT_EQ(late.in_time_bytes, 0) << "half a checkpoint is none";
  EXPECT_EQ(late.only_there_bytes, whole.only_there_bytes);
}

// Told while it changes: once that is committed, it saves what the next change cannot save in time.
TEST(Notices, ANoticeDuringAChangeIsAnsweredAfterIt) {
  const std::string restart = "costs { strategy: \"tenplex\" restart: \"60s\" }\n";
  Driver driver(staged(200) + restart, "tenplex");
  driver.feed(1, TimerFired{1});
  driver.feed(2.5, UserResize{0, 1});
  driver.feed(3, StepReached{0, 3});
  ASSERT_EQ(driver.only<Execute>().plan->dst_devices(), testing::device_ids({0}));
  driver.feed(5, UserDrain{testing::device_ids({0, 1}), 100.0});
  EXPECT_TRUE(driver.job().notices.empty());
  driver.done(70);
  const NoticeRecord notice = driver.job().notices.at(0);
  EXPECT_EQ(notice.answer, "copies") << "35 s are left";
  EXPECT_EQ(notice.devices, testing::device_ids({0}));
  driver.feed(71, BackgroundDone{0, driver.only<Background>().tag});
  EXPECT_EQ(driver.only<Execute>().step, 3);
  EXPECT_TRUE(driver.only<Execute>().gone.contains(DeviceId(0)));
}

// A resize while the job waits to leave: one change does both.
TEST(Notices, AResizeIsNotKeptWaiting) {
  Driver driver(staged(500));
  driver.feed(1, TimerFired{1});
  driver.feed(10.5, TimerFired{2});
  EXPECT_TRUE(driver.none<Train>());
  driver.feed(20.5, UserResize{0, 1});
  EXPECT_EQ(driver.only<Train>().until_step, 21);
}

}  // namespace notices_test
}  // namespace scalai::control
