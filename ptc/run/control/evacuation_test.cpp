#include "ptc/run/control/internal/evacuation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace evacuation_test {

using testing::device_ids;
using testing::Driver;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::job_text;

// A stage on g0 of h0 and one on g2 of h1, which is taken. Its NIC sends 0.9 MB/s from 1 s on. Timers: 0 the end, 1 the
// slow link, 2 the notice at 10.5 s.
std::string staged(double notice_s, const std::string& more = "", const std::string& layout = "pp2") {
  return fmt::format(
             "until: \"1000s\"\ncosts {{ plan: \"0s\" transfer_start: \"0s\" box: \"0s\" peer: \"0s\" detect: \"1s\" "
             "}}\n"
             "events {{ at: \"1s\" degrade {{ links: \"h1.nic0.up\" factor: 0.001 }} }}\n"
             "events {{ at: \"10.5s\" preempt {{ hosts: [1] notice: \"{}s\" }} }}\n",
             notice_s) +
         job_text("a", fmt::format("devices: [0, 2] configs {{ layout: \"{}\" step_time: \"1s\" }} "
                                   "configs {{ layout: \"tp1\" step_time: \"2s\" }} {}",
                                   layout, more));
}

constexpr double kNic = 0.9e6;

struct Told {
  explicit Told(const std::string& text, const std::string& strategy = "reshard") : driver(text, strategy) {
    driver.feed(1, TimerFired{1});
    driver.feed(10, StepReached{0, 10});
    driver.feed(10.5, TimerFired{2});
  }
  NoticeRecord notice() const { return driver.job().notices.at(0); }
  Driver driver;
};

// S bytes are on h1 alone and leave in S / 0.9 MB/s = T. A job with T · 1.1 + 5 s of notice trains 5 s more, less what
// is left of a step.
TEST(Evacuation, LeavesAsLateAsItCan) {
  const NoticeRecord longest = Told(staged(500)).notice();
  EXPECT_EQ(longest.answer, "leaves");
  EXPECT_EQ(longest.deadline_s, 510.5);
  EXPECT_EQ(longest.devices, device_ids({2}));
  const double takes_s = static_cast<double>(longest.only_there_bytes) / kNic;
  EXPECT_GT(takes_s, 1);
  EXPECT_NEAR(longest.takes_s, takes_s, 1e-6 * takes_s);
  EXPECT_NEAR(longest.starts_s, 510.5 - 1.1 * takes_s, 1e-6);
  Told told(staged(1.1 * takes_s + 5));
  ASSERT_EQ(told.driver.all<ArmTimer>().size(), 2u);
  const double leaves_s = told.driver.all<ArmTimer>()[0].at_s;
  EXPECT_NEAR(leaves_s, 14.5, 1e-6) << "a step of 1 s before 15.5";
  told.driver.feed(leaves_s, TimerFired{3});
  EXPECT_EQ(told.driver.only<Train>().until_step, 15);
  told.driver.feed(15, StepReached{0, 15});
  const Execute execute = told.driver.only<Execute>();
  EXPECT_EQ(execute.step, 15);
  EXPECT_EQ(execute.plan->bytes().cross_host, longest.only_there_bytes);
  told.driver.feed(15, RoundDone{0, 0});
  told.driver.feed(15 + takes_s, RoundDone{0, 1});
  EXPECT_TRUE(told.driver.lose(15.5 + 1.1 * takes_s, {2}, 1).empty()) << "nothing reads the device any more";
  told.driver.done(40);
  EXPECT_EQ(told.driver.job().lost_steps, 0);
  EXPECT_EQ(told.driver.log(), told.driver.log_again());
}

// The same, but h1 dies while it is read: the attempt is void, and there is nothing to go back to.
TEST(Evacuation, ADeviceThatIsStillReadEndsTheAttempt) {
  Told told(staged(500));
  told.driver.feed(502, TimerFired{3});
  told.driver.feed(503, StepReached{0, 503});
  told.driver.feed(503, RoundDone{0, 0});
  told.driver.lose(504, {2}, 1);
  EXPECT_EQ(told.driver.job().state, "failed");
}

// Half of the notice that it takes: half of the bytes can be out, the other half is named. The checkpoint of step 8 is
// 2 steps behind, and half a step is cut off.
TEST(Evacuation, HalfTheNoticeSavesHalfTheBytes) {
  const NoticeRecord longest = Told(staged(500)).notice();
  const double takes_s = longest.takes_s;
  Told told(staged(takes_s / 2));
  const NoticeRecord half = told.notice();
  EXPECT_EQ(half.answer, "loses");
  EXPECT_EQ(half.only_there_bytes, longest.only_there_bytes);
  const double rows = 3 * 64 * 4 * 4;  // the largest row of a tensor
  EXPECT_LE(static_cast<double>(half.in_time_bytes), kNic * takes_s / 2);
  EXPECT_GT(static_cast<double>(half.in_time_bytes), kNic * takes_s / 2 - rows);
  ASSERT_FALSE(half.lost.empty());
  EXPECT_THAT(half.lost[0], HasSubstr("tensor \"layers.3"));
  const Background copies = told.driver.only<Background>();
  int64_t copied = 0;
  for (const BulkFlow& flow : copies.flows) copied += flow.bytes;
  EXPECT_EQ(copied, half.in_time_bytes);

  Driver saved(staged(takes_s / 2, "checkpoint { every_steps: 8 before_change: false }"));
  saved.feed(1, TimerFired{1});
  saved.feed(8, StepReached{0, 8});
  saved.feed(9, BackgroundDone{0, saved.only<Background>().tag});
  saved.feed(10.5, TimerFired{2});
  EXPECT_EQ(saved.only<Execute>().step, 8) << "at once: what is trained until the deadline is lost anyway";
  const NoticeRecord back = saved.job().notices.at(0);
  EXPECT_EQ(back.answer, "goes back");
  EXPECT_EQ(back.in_time_bytes, half.in_time_bytes);
  EXPECT_EQ(back.step, 8);
  EXPECT_EQ(back.repeated_steps, saved.job().reconfigurations.back().rolled_back_steps);
  EXPECT_NEAR(back.repeated_s, static_cast<double>(back.repeated_steps), 1e-9) << "steps of 1 s";
}

// While a copy is on its way the job trains on; when it has arrived, the job goes back to that one.
TEST(Evacuation, ACopyOnItsWayIsWaitedFor) {
  Driver driver(staged(1, "checkpoint { every_steps: 8 before_change: false }"));
  driver.feed(1, TimerFired{1});
  driver.feed(8, StepReached{0, 8});
  const int64_t tag = driver.only<Background>().tag;
  driver.feed(10.5, TimerFired{2});
  EXPECT_TRUE(driver.none<Execute>()) << "step 0 is all that there is";
  EXPECT_EQ(driver.job().notices.at(0).step, 0);
  driver.feed(11, BackgroundDone{0, tag});
  EXPECT_EQ(driver.only<Execute>().step, 8);
  EXPECT_EQ(driver.job().notices.size(), 1u);
  EXPECT_EQ(driver.job().notices[0].step, 8);
  EXPECT_EQ(driver.job().notices[0].at_s, 10.5);
}

// Replicas hold all of it: long and short notices differ in nothing but the steps until then.
TEST(Evacuation, RedundantStateNeedsNoTime) {
  for (const double notice_s : {2.0, 500.0}) {
    Told told(staged(notice_s, "", "dp2"));
    const NoticeRecord notice = told.notice();
    EXPECT_EQ(notice.answer, "leaves");
    EXPECT_EQ(notice.only_there_bytes, 0);
    EXPECT_EQ(notice.takes_s, 0);
    EXPECT_EQ(notice.starts_s, notice.deadline_s);
    EXPECT_THAT(notice.lost, IsEmpty());
  }
}

// A restart of 60 s is too long for 30 s of notice, but not a copy in the memory of h0, which the change then reads.
TEST(Evacuation, CopiesBeforeARestartThatTakesTooLong) {
  Told told(staged(30) + "costs { strategy: \"tenplex\" restart: \"60s\" }\n", "tenplex");
  const NoticeRecord notice = told.notice();
  EXPECT_EQ(notice.answer, "copies");
  EXPECT_EQ(notice.in_time_bytes, notice.only_there_bytes);
  told.driver.feed(told.driver.all<ArmTimer>()[0].at_s, TimerFired{3});
  const int64_t step = told.driver.only<Train>().until_step;
  told.driver.feed(static_cast<double>(step), StepReached{0, step});
  const Background copies = told.driver.only<Background>();
  for (const collection::ExtraHolder& copy : list_of(copies.copies)) EXPECT_EQ(copy.host, HostId(0));
  told.driver.feed(40, BackgroundDone{0, copies.tag});
  const Execute execute = told.driver.only<Execute>();
  EXPECT_EQ(execute.step, step);
  EXPECT_TRUE(execute.gone.contains(DeviceId(2))) << "which it reads no more";
  EXPECT_TRUE(told.driver.lose(40.5, {2}, 1).empty());
  told.driver.done(110);
  EXPECT_EQ(told.driver.job().lost_steps, 0);
}

}  // namespace evacuation_test
}  // namespace scalai::control
