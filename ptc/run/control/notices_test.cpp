#include "ptc/run/control/internal/notices.h"

#include <gtest/gtest.h>

#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace notices_test {

using testing::Driver;
using testing::job_text;

// A stage on g0 of h0 and one on g2 of h1, which is taken. Its NIC sends 0.9 MB/s from 1 s on. Timers: 0 the end, 1 the
// slow link, 2 the notice at 10.5 s.
std::string staged(double notice_s, const std::string& step_time = "1s") {
  return fmt::format(
             "until: \"1000s\"\ncosts {{ plan: \"0s\" transfer_start: \"0s\" detect: \"1s\" }}\n"
             "events {{ at: \"1s\" degrade {{ links: \"h1.nic0.up\" factor: 0.001 }} }}\n"
             "events {{ at: \"10.5s\" preempt {{ hosts: [1] notice: \"{}s\" }} }}\n",
             notice_s) +
         job_text("a", fmt::format("devices: [0, 2] configs {{ layout: \"pp2\" step_time: \"{}\" }} "
                                   "configs {{ layout: \"tp1\" step_time: \"2s\" }}",
                                   step_time));
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
