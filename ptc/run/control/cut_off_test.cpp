// Links that fail and cut hosts off: jobs leave these, or stand still until the links are back.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace cut_off_test {

using testing::device_ids;
using testing::Driver;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::job_text;

// The card of host 1 fails at 10.5 s and is back at 60 s. Timers: 0 the end, 1 and 2 the events, 3 the notice after 5
// s.
std::string scenario(const std::string& job, const std::string& leave,
                     const std::string& what = "links: \"h1.nic0.up\"") {
  return "until: \"1000s\" costs { detect: \"5s\" }\n" + job_text("a", job) + "events { at: \"10.5s\" fail { " + what +
         " " + leave + " } } events { at: \"60s\" repair { " + what + " } }";
}
// Replicas on two hosts; a shard on each of two hosts.
const std::string kReplicas =
    "devices: [0, 2] configs { layout: \"dp2\" step_time: \"1s\" } configs { layout: \"tp1\" step_time: \"2s\" } ";
const std::string kShards =
    "devices: [0, 2] configs { layout: \"tp2\" step_time: \"1s\" } configs { layout: \"tp1\" step_time: \"2s\" } ";

TEST(CutOff, AJobLeavesWhatItNoLongerReaches) {
  Driver driver(scenario(kReplicas, "leave: true"));
  driver.feed(10.5, TimerFired{1});
  EXPECT_EQ(driver.only<ArmTimer>().at_s, 15.5) << "nobody has noticed";
  driver.feed(15.5, TimerFired{3});
  driver.only<Halt>();
  const Execute execute = driver.only<Execute>();
  EXPECT_THAT(execute.plan->dst_devices(), ElementsAre(DeviceId(0)));
  EXPECT_EQ(execute.plan->bytes().moved(), 0);
  driver.done(17);
  EXPECT_EQ(driver.reconfiguration(0).cause, "cut off from g2");
  EXPECT_EQ(driver.job().lost_steps, 0);
  driver.feed(60, TimerFired{2});
  driver.feed(61, StepReached{0, 37});
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({0, 2})) << "it goes back";
  EXPECT_EQ(driver.log(), driver.log_again());
}

TEST(CutOff, LeavingIsWhatHappensUnlessToldOtherwise) {
  Driver driver(scenario(kReplicas, ""));
  driver.feed(10.5, TimerFired{1});
  driver.feed(15.5, TimerFired{3});
  EXPECT_THAT(driver.only<Execute>().plan->dst_devices(), ElementsAre(DeviceId(0)));
}

TEST(CutOff, AJobThatIsToldToStays) {
  Driver driver(scenario(kReplicas, "leave: false"));
  driver.feed(10.5, TimerFired{1});
  EXPECT_TRUE(driver.none<ArmTimer>());
  EXPECT_TRUE(driver.none<Halt>());
}

TEST(CutOff, BackBeforeAnybodyNoticed) {
  Driver driver(scenario(kReplicas, "leave: true"));
  driver.feed(10.5, TimerFired{1});
  driver.feed(12, TimerFired{2});
  EXPECT_TRUE(driver.feed(15.5, TimerFired{3}).empty());
}

TEST(CutOff, AJobOnOneSideGoesOn) {
  Driver driver(scenario("devices: [2, 3] configs { layout: \"dp2\" step_time: \"1s\" }", "leave: true"));
  driver.feed(10.5, TimerFired{1});
  EXPECT_TRUE(driver.feed(15.5, TimerFired{3}).empty());
}

// Its state is not lost, so it does not fail.
TEST(CutOff, WithoutAnotherCopyItStandsStillUntilTheLinkIsBack) {
  Driver driver(scenario(kShards, "leave: true"));
  driver.feed(10.5, TimerFired{1});
  EXPECT_TRUE(driver.feed(15.5, TimerFired{3}).empty());
  EXPECT_EQ(driver.job().state, "running");
  driver.feed(60, TimerFired{2});
  EXPECT_TRUE(driver.none<Execute>());
  EXPECT_TRUE(driver.job().reconfigurations.empty());
}

TEST(CutOff, ACheckpointIsACopy) {
  Driver driver(scenario(kShards + "checkpoint { every_steps: 4 }", "leave: true"));
  driver.feed(8, StepReached{0, 8});
  driver.feed(9, BackgroundDone{0, driver.only<Background>().tag});
  driver.feed(10.5, TimerFired{1});
  driver.feed(15.5, TimerFired{3});
  EXPECT_EQ(driver.only<Execute>().step, 8);
  EXPECT_GT(driver.only<Execute>().plan->bytes().from_storage, 0);
}

// The one switch of the star: storage is out of reach, too.
TEST(CutOff, ACheckpointOutOfReachIsNone) {
  Driver driver(scenario(kShards + "checkpoint { every_steps: 4 }", "leave: true", "switches: \"fabric\""));
  driver.feed(8, StepReached{0, 8});
  driver.feed(9, BackgroundDone{0, driver.only<Background>().tag});
  driver.feed(10.5, TimerFired{1});
  EXPECT_TRUE(driver.feed(15.5, TimerFired{3}).empty());
}

// Of 15 steps those behind the 8th are run again, 2 s each, and the change takes time: more than 2 s, less than 45 s.
TEST(CutOff, TheCheaperOfWaitingAndLeavingIsTaken) {
  for (const auto& [expected, leaves] : {std::pair("50s", true), {"7s", false}}) {
    Driver driver(
        scenario(kShards + "checkpoint { every_steps: 4 }", fmt::format("leave: true expected: \"{}\"", expected)));
    driver.feed(8, StepReached{0, 8});
    driver.feed(9, BackgroundDone{0, driver.only<Background>().tag});
    driver.feed(10.5, TimerFired{1});
    driver.feed(15.5, TimerFired{3});
    EXPECT_EQ(driver.all<Execute>().size(), leaves ? 1u : 0u) << expected;
    if (leaves) continue;
    EXPECT_EQ(driver.only<ArmTimer>().at_s, 17.5);
    driver.feed(16, UserResize{0, 1});
    EXPECT_TRUE(driver.none<Execute>()) << "it still waits";
    driver.feed(17.5, TimerFired{4});
    driver.only<Execute>();  // it lasts longer than was thought
  }
}

// It was on its way to host 1, from a state that host 0 still has.
TEST(CutOff, AChangeUnderWayGoesElsewhere) {
  Driver driver("until: \"1000s\" costs { detect: \"5s\" }\n" +
                job_text("a",
                         "gpus: 1 configs { layout: \"tp1\" step_time: \"1s\" } "
                         "configs { layout: \"dp4\" step_time: \"1s\" }") +
                "events { at: \"10.5s\" fail { links: \"h1.nic0.up\" leave: true } }");
  driver.feed(9.5, UserResize{0, 4});
  driver.feed(10, StepReached{0, 10});
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({0, 1, 2, 3}));
  driver.feed(10.5, TimerFired{1});
  driver.feed(15.5, TimerFired{2});
  driver.only<Abort>();
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({0, 1, 4, 5}));
  driver.done(20);
  EXPECT_THAT(driver.reconfiguration(0).cause, HasSubstr("; links are down"));
}

// One shard is lost, the other one cut off: what is missing for good shows when the link is back.
TEST(CutOff, ALossBesidesMakesItWait) {
  Driver driver(
      scenario("gpus: 4 configs { layout: \"tp4\" step_time: \"1s\" } configs { layout: \"tp1\" step_time: \"2s\" }",
               "leave: true"));
  driver.feed(10.5, TimerFired{1});
  driver.feed(15.5, TimerFired{3});
  driver.lose(20, {0});
  EXPECT_EQ(driver.job().state, "waiting");
  EXPECT_EQ(driver.job().failure, "its state is cut off");
  driver.feed(60, TimerFired{2});
  EXPECT_EQ(driver.job().state, "failed");
}

}  // namespace cut_off_test
}  // namespace scalai::control
