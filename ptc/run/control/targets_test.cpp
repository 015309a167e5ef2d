#include "ptc/run/control/internal/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/control/testing/parts_fixture.h"

namespace scalai::control {
namespace {

using testing::device_ids;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Parts;
using testing::sized_job;

struct Chooses : Parts {
  explicit Chooses(const std::string& text, const std::string& strategy_name = "reshard")
      : Parts("until: \"100s\"\n" + text),
        strategy(scenario::find_strategy(strategy_name, {}).value()),
        planner(scenario, strategy, condition, true),
        targets(scenario, strategy, condition, jobs, planner, turn) {
    turn.logged = 2;  // after Started
  }
  const scenario::Strategy strategy;
  ChangePlanner planner;
  Targets targets;
};

TEST(Targets, AJobUsesItsOwnDevicesFirst) {
  Chooses parts(sized_job("a") + sized_job("b"));
  const Job& a = parts.train(0, 1, {6, 7});
  parts.train(1, 1, {0, 1});
  EXPECT_EQ(parts.targets.usable_devices(a), device_ids({2, 3, 6, 7})) << "in rank order, as many as it wants";
  parts.lose({2, 7});
  EXPECT_EQ(parts.targets.usable_devices(a), device_ids({3, 4, 5, 6}));
  parts.condition.drain(device_ids({3}));
  parts.jobs[0].wanted.gpus = 1;
  EXPECT_EQ(parts.targets.usable_devices(a), device_ids({6}));
}

TEST(Targets, NamedDevicesAreTheOnlyOnes) {
  Chooses parts(sized_job("a") + sized_job("b"));
  parts.jobs[0].wanted.devices = device_ids({5, 4, 1});
  parts.train(1, 1, {0, 1});
  EXPECT_EQ(parts.targets.usable_devices(parts.jobs[0]), device_ids({5, 4}));
}

TEST(Targets, AtTheStartNobodyTakesWhatAnotherJobNames) {
  Chooses parts(sized_job("a") + sized_job("b"));
  parts.jobs[1].wanted.devices = device_ids({0, 1});
  parts.turn.logged = 1;
  EXPECT_EQ(parts.targets.usable_devices(parts.jobs[0]), device_ids({2, 3, 4, 5}));
  parts.turn.logged = 2;
  EXPECT_EQ(parts.targets.usable_devices(parts.jobs[0]), device_ids({0, 1, 2, 3}));
}

TEST(Targets, TheLargestConfigurationThatFits) {
  Chooses parts(sized_job("a"));
  const Job& job = parts.train(0, 0, {0, 1, 2, 3});
  EXPECT_TRUE(parts.targets.settled(job));
  parts.lose({1, 4, 5, 6, 7});
  const std::optional<Target> target = parts.targets.choose(job);
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->choice->config.world(), 2) << "three are left";
  EXPECT_EQ(target->devices, device_ids({0, 2}));
  EXPECT_FALSE(parts.targets.settled(job));
}

TEST(Targets, AForcedMoveIsNeverSettled) {
  Chooses parts(sized_job("a"));
  Job& job = parts.train(0, 0, {0, 1, 2, 3});
  job.request.forced = true;
  EXPECT_FALSE(parts.targets.settled(job));
}

TEST(Targets, OnlyAJobAloneKeepsDevicesWhileItWaits) {
  Chooses alone(sized_job("a"));
  EXPECT_EQ(alone.targets.kept_devices(alone.jobs[0]), device_ids({0, 1, 2, 3}));
  Chooses two(sized_job("a") + sized_job("b"));
  EXPECT_THAT(two.targets.kept_devices(two.jobs[0]), IsEmpty());
}

TEST(Targets, AChoiceSaysWhyNothingFits) {
  Chooses parts(testing::job_text("a", "gpus: 8 parallel: choose search { pins: \"dp8,tp1,pp1,cp1\" }"));
  const Job& job = parts.jobs[0];
  EXPECT_EQ(parts.targets.why_none(job), "") << "not asked";
  parts.lose({3});
  EXPECT_FALSE(parts.targets.choose(job).has_value());
  EXPECT_THAT(parts.targets.why_none(job), HasSubstr("there are 7"));
  parts.condition.repair({.devices = device_ids({3}), .links = {}}, 5);
  EXPECT_TRUE(parts.targets.choose(job).has_value());
  EXPECT_EQ(parts.targets.why_none(job), "");
}

TEST(Targets, ListedConfigurationsSayWhyNoneFits) {
  Chooses parts(testing::job_text("a", "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" }") + sized_job("b"));
  parts.train(1, 1, {0, 1});
  parts.lose({2, 3, 4});
  EXPECT_FALSE(parts.targets.choose(parts.jobs[0]).has_value());
  EXPECT_THAT(parts.targets.why_none(parts.jobs[0]),
              HasSubstr("tp2,dp2, needs 4 GPUs and it can have 3 (3 of 8 lost or drained, 2 held by other jobs); a "
                        "smaller one in \"configs\" or a repair"));
  parts.jobs[0].wanted.gpus = 2;
  EXPECT_THAT(parts.targets.why_none(parts.jobs[0]), HasSubstr("it can have 2 ("));
  parts.jobs[0].wanted.devices = device_ids({7});
  EXPECT_THAT(parts.targets.why_none(parts.jobs[0]), HasSubstr("it can have 1 ("));
}

TEST(Targets, AWaitHasAReasonInFewWords) {
  Chooses parts(testing::job_text("a", "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" }") + sized_job("b"));
  parts.lose({2, 3, 4, 5, 6});
  EXPECT_EQ(parts.targets.why_waits(parts.jobs[0]), "no layout fits 3 GPUs (5 of 8 lost or drained)");
  parts.train(1, 1, {0, 1});
  EXPECT_EQ(parts.targets.why_waits(parts.jobs[0]),
            "no layout fits 1 GPUs (5 of 8 lost or drained, 2 held by other jobs)");
  parts.condition.repair({.devices = device_ids({2, 3, 4, 5, 6}), .links = {}}, 5);
  EXPECT_EQ(parts.targets.why_waits(parts.jobs[0]), "queued: other jobs have GPUs that it needs");
  Chooses granted("policy { name: \"fifo\" }\n" + sized_job("a", "steps: 100"));
  EXPECT_EQ(granted.targets.why_waits(granted.jobs[0]), "queued: the policy gives it no GPUs");
}

const std::string kPolicy = "policy { name: \"fifo\" }\n";

TEST(Targets, UnderAPolicyAJobHasNoneWithoutAGrant) {
  Chooses parts(kPolicy + sized_job("a", "steps: 100"));
  EXPECT_FALSE(parts.targets.choose(parts.jobs[0]).has_value());
  parts.jobs[0].wanted.devices = device_ids({4, 5, 6, 7});
  EXPECT_EQ(parts.targets.choose(parts.jobs[0])->devices, device_ids({4, 5, 6, 7}));
}

TEST(Targets, UnderAPolicyAJobStaysWhileOthersAreOnItsNewDevices) {
  Chooses parts(kPolicy + sized_job("a", "steps: 100") + sized_job("b", "steps: 100"));
  const Job& a = parts.train(0, 1, {0, 1});
  Job& b = parts.train(1, 1, {2, 3});
  parts.jobs[0].wanted = {.gpus = 4, .devices = device_ids({0, 1, 2, 3})};
  EXPECT_EQ(parts.targets.choose(a)->devices, device_ids({0, 1}));
  parts.lose({1});
  EXPECT_FALSE(parts.targets.choose(a).has_value()) << "it cannot stay";
  b.devices.clear();
  EXPECT_EQ(parts.targets.choose(a)->devices, device_ids({0, 2}));
}

}  // namespace
}  // namespace scalai::control
