// Where state comes from when devices are lost, or a copy of it is.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/plan/estimate.h"
#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace lost_state_test {

using testing::device_ids;
using testing::Driver;
using ::testing::HasSubstr;
using testing::job_text;

// One shard of everything on each of two hosts: losing a host loses state.
std::string sharded(const std::string& job_more, const std::string& layout = "tp2") {
  return "until: \"1000s\"\n" + job_text("a", "devices: [0, 2] configs { layout: \"" + layout +
                                                  "\" step_time: \"1s\" } "
                                                  "configs { layout: \"tp1\" step_time: \"2s\" } " +
                                                  job_more);
}

TEST(LostState, WithoutACheckpointTheJobFailsAndNamesIt) {
  Driver driver(sharded(""));
  driver.lose(10.5, {2});
  driver.only<Stop>();
  const JobRecord job = driver.job();
  EXPECT_EQ(job.state, "failed");
  EXPECT_THAT(job.failure, HasSubstr("tensor \"embedding.word.weight\""));
  EXPECT_THAT(job.failure, HasSubstr("["));
  EXPECT_EQ(job.steps, 10);
  EXPECT_EQ(job.wall_s, 15.5);
  ASSERT_EQ(job.reconfigurations.size(), 1u);
  EXPECT_FALSE(job.reconfigurations[0].completed);
}

TEST(LostState, ComesFromTheLastCompletedCheckpoint) {
  Driver driver(sharded("checkpoint { every_steps: 4 }"));
  driver.feed(4, StepReached{0, 4});
  const Background first = driver.only<Background>();
  EXPECT_EQ(first.what, "checkpoint");
  const double stall_s = driver.only<Train>().start_s - 4;
  EXPECT_GT(stall_s, 0) << "training waits for the copy into host memory";
  driver.feed(5, BackgroundDone{0, first.tag});
  driver.feed(8 + stall_s, StepReached{0, 8});
  driver.only<Background>();  // does not arrive in time
  driver.lose(10.5 + 2 * stall_s, {2});
  const Execute execute = driver.only<Execute>();
  EXPECT_FALSE(execute.restore);
  EXPECT_EQ(execute.plan->bytes().kept, 0);
  EXPECT_GT(execute.plan->bytes().from_storage, 0);
  driver.done(30);
  EXPECT_EQ(driver.reconfiguration(0).step, 4);
  EXPECT_EQ(driver.reconfiguration(0).rolled_back_steps, 6);
  EXPECT_EQ(driver.job().lost_steps, 6);
  EXPECT_EQ(driver.job().steps, 4);
  EXPECT_EQ(driver.job().training_s, 10);
  EXPECT_EQ(driver.only<Train>().from_step, 4);
}

TEST(LostState, SurvivorsRollBackFromHostMemoryWhereThereIsACopy) {
  Driver driver(sharded("checkpoint { every_steps: 4 host_memory_copy: true }"));
  driver.feed(4, StepReached{0, 4});
  driver.feed(5, BackgroundDone{0, driver.only<Background>().tag});
  driver.lose(6.5, {2});
  const Execute execute = driver.only<Execute>();
  EXPECT_TRUE(execute.restore);
  EXPECT_GT(execute.plan->bytes().kept + execute.plan->bytes().same_device, 0);
  EXPECT_GT(execute.plan->bytes().from_storage, 0);
}

TEST(LostState, TheInitialStateIsACheckpoint) {
  Driver driver(sharded("checkpoint { every_steps: 100 }"));
  driver.lose(6.5, {2});
  driver.done(30);
  EXPECT_EQ(driver.reconfiguration(0).step, 0);
  EXPECT_EQ(driver.job().lost_steps, 6);
}

TEST(LostState, ARedundantCopyOnAnotherHostSavesAShardedOptimizer) {
  for (const bool copied : {false, true}) {
    Driver driver(sharded(copied ? "redundancy { copies: 1 every_steps: 3 }" : "", "dp2,zero1"));
    driver.feed(3, copied ? EventBody(StepReached{0, 3}) : EventBody(BackgroundDone{0, 99}));
    if (copied) {
      EXPECT_EQ(driver.only<Background>().what, "redundancy");
      driver.feed(3.5, BackgroundDone{0, driver.only<Background>().tag});
    }
    driver.lose(4.75, {2});
    if (!copied) {
      EXPECT_EQ(driver.job().state, "failed");
      continue;
    }
    EXPECT_EQ(driver.only<Execute>().plan->bytes().from_storage, 0);
    EXPECT_TRUE(driver.only<Execute>().restore);
    driver.done(20);
    EXPECT_EQ(driver.reconfiguration(0).step, 3);
    EXPECT_EQ(driver.job().lost_steps, 1);
  }
}

// Four replicas, on h0 and h1, and both hosts die. One copy asks for two hosts, which the replicas are; two ask for a
// third.
TEST(LostState, CopiesBesideReplicasSurviveTheLossOfBoth) {
  for (const int copies : {1, 2}) {
    Driver driver("until: \"1000s\"\n" +
                  job_text("a", fmt::format("gpus: 4 configs {{ layout: \"dp4\" step_time: \"1s\" }} "
                                            "redundancy {{ copies: {} every_steps: 3 }}",
                                            copies)));
    driver.feed(3, StepReached{0, 3});
    EXPECT_EQ(list_of(driver.only<Background>().copies).empty(), copies == 1);
    driver.feed(3.5, BackgroundDone{0, driver.only<Background>().tag});
    driver.lose(4.75, {0, 1, 2, 3});
    if (copies == 1) {
      EXPECT_EQ(driver.job().state, "failed");
      continue;
    }
    ASSERT_EQ(driver.job().state, "reconfiguring") << driver.job().failure;
    for (const plan::Operation& operation : driver.only<Execute>().plan->operations()) {
      if (operation.hop > 0) continue;
      EXPECT_EQ(operation.src.kind, plan::Location::Kind::kHostMemory);
      EXPECT_GE(operation.src.index, 2);
    }
    driver.done(20);
    EXPECT_EQ(driver.reconfiguration(0).step, 3);
    EXPECT_EQ(driver.job().redundancy->made, 1);
    EXPECT_EQ(driver.job().redundancy->survives_host_losses, 2);
  }
}

// h1 is dead when the copies of what h0 holds are made, so they go to h2 and h3.
TEST(LostState, ACopyIsSoughtWhereItWasPut) {
  Driver driver(
      "until: \"1000s\"\n" +
      job_text("a", "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" } redundancy { copies: 1 every_steps: 3 }"));
  driver.lose(0.5, {2, 3}, 0.25);
  driver.feed(3, StepReached{0, 3});
  driver.feed(3.5, BackgroundDone{0, driver.only<Background>().tag});
  driver.lose(4.75, {0, 1});
  ASSERT_EQ(driver.job().state, "reconfiguring") << driver.job().failure;
  int64_t from_memory = 0;
  for (const plan::Operation& operation : driver.only<Execute>().plan->operations()) {
    if (operation.src.kind != plan::Location::Kind::kHostMemory) continue;
    ++from_memory;
    EXPECT_GE(operation.src.index, 2);
  }
  EXPECT_GT(from_memory, 0);
}

// The copies of what h0 held are in the memory of h1, where another job runs. It dies while they are read.
TEST(LostState, AHostThatDiesWhileItsMemoryIsReadEndsTheAttempt) {
  Driver driver("until: \"1000s\"\n" +
                job_text("a",
                         "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" } checkpoint { every_steps: 2 } "
                         "redundancy { copies: 1 every_steps: 3 }") +
                job_text("b", "devices: [2, 3] configs { layout: \"tp2\" step_time: \"1000s\" }"));
  driver.feed(2, StepReached{0, 2});
  driver.feed(2.5, BackgroundDone{0, driver.only<Background>().tag});
  driver.feed(3.5, StepReached{0, 3});
  driver.feed(3.75, BackgroundDone{0, driver.only<Background>().tag});
  driver.lose(4.75, {0, 1}, 0.25);
  const auto reads_from = [&](const plan::Location& place) {
    const auto operations = driver.only<Execute>().plan->operations();
    return std::any_of(operations.begin(), operations.end(), [&](const auto& one) { return one.src == place; });
  };
  ASSERT_TRUE(reads_from(plan::Location::host_memory(HostId(1))));
  ASSERT_EQ(driver.only<Execute>().plan->dst_devices(), (std::vector{DeviceId(4), DeviceId(5)}));
  driver.lose(5.5, {2, 3}, 0.25);
  driver.only<Abort>();
  EXPECT_TRUE(reads_from(plan::Location::storage()));
  EXPECT_FALSE(reads_from(plan::Location::host_memory(HostId(1))));
  driver.done(30);
  EXPECT_EQ(driver.reconfiguration(0).step, 2) << "that of the checkpoint";
  EXPECT_EQ(driver.reconfiguration(0).aborted_attempts, 1);
}

// A plan may come before the first redundant copy is due: the state that the job began with covers it.
TEST(LostState, ACappedPlanIsCoveredFromTheStart) {
  Driver driver("until: \"1000s\"\nplanner { memory_cap: \"60kB\" }\n" +
                job_text("a",
                         "gpus: 8 configs { layout: \"tp4,dp2\" step_time: \"1s\" } configs { layout: \"tp2,dp2\" "
                         "step_time: \"1s\" } redundancy { copies: 1 every_steps: 100 }"));
  EXPECT_TRUE(driver.only<Train>().initial_copies);
  driver.feed(1, UserResize{0, 4});
  driver.feed(1, StepReached{0, 1});
  ASSERT_TRUE(plan::frees_early(*driver.only<Execute>().plan));
  driver.feed(5, RoundDone{0, 1});
  driver.lose(5.5, {0, 1}, 0.25);
  ASSERT_EQ(driver.job().state, "reconfiguring") << driver.job().failure;
  EXPECT_EQ(driver.only<Execute>().snapshot, kInitialState);
  EXPECT_TRUE(driver.only<Execute>().restore);
  driver.done(20);
  EXPECT_EQ(driver.reconfiguration(0).step, 0);
  EXPECT_FALSE(Driver("until: \"1000s\"\n" + job_text("a",
                                                      "gpus: 8 configs { layout: \"tp4,dp2\" step_time: \"1s\" } "
                                                      "redundancy { copies: 1 every_steps: 100 }"))
                   .only<Train>()
                   .initial_copies)
      << "without a cap the old epoch stays whole until the commit";
}

TEST(LostState, ACopyThatFailedIsTriedAgainWhenOneIsDue) {
  Driver driver(sharded("checkpoint { every_steps: 4 }"));
  driver.feed(4, StepReached{0, 4});
  const int64_t failed = driver.only<Background>().tag;
  driver.feed(4, CopyLost{0, failed});
  EXPECT_EQ(driver.only<Forget>().snapshot, failed);
  EXPECT_TRUE(driver.none<Background>());
  driver.feed(8.5, StepReached{0, 8});
  EXPECT_EQ(driver.only<Background>().step, 8);
  driver.feed(9, BackgroundDone{0, driver.only<Background>().tag});
  driver.lose(10.5, {2});
  driver.done(30);
  EXPECT_EQ(driver.reconfiguration(0).step, 8);
}

TEST(LostState, ACopyThatCannotBeReadGivesWayToTheNextSource) {
  Driver driver(sharded("checkpoint { every_steps: 4 } redundancy { copies: 1 every_steps: 3 }"));
  driver.feed(3, StepReached{0, 3});
  driver.feed(3.25, BackgroundDone{0, driver.only<Background>().tag});
  driver.feed(4.5, StepReached{0, 4});
  const int64_t checkpoint = driver.only<Background>().tag;
  driver.feed(4.75, BackgroundDone{0, checkpoint});
  driver.lose(5.75, {2});
  EXPECT_EQ(driver.only<Execute>().snapshot, checkpoint);
  driver.feed(20, CopyLost{0, checkpoint});
  driver.only<Abort>();
  EXPECT_TRUE(driver.none<Forget>()) << "its files stay for people to look at";
  EXPECT_EQ(driver.only<Execute>().step, 3) << "the redundant copy";
  driver.done(40);
  EXPECT_EQ(driver.reconfiguration(0).aborted_attempts, 1);
  EXPECT_THAT(driver.reconfiguration(0).cause, HasSubstr("the copy of step 4 cannot be read"));
  EXPECT_EQ(driver.log_again(), driver.log());
}

TEST(LostState, WithoutAnotherSourceTheJobFailsAndSaysWhy) {
  Driver driver(sharded("checkpoint { every_steps: 4 }"));
  driver.lose(3.5, {2});
  driver.feed(20, CopyLost{0, kInitialState});
  EXPECT_EQ(driver.job().state, "failed");
  EXPECT_THAT(driver.job().failure, HasSubstr("the copy of step 0 cannot be read"));
}

// h1 keeps the copies, dies in two parts (before they are made, while they are, after), and is no source of any plan.
TEST(LostState, ADeadHostsMemoryIsNoSource) {
  for (const std::string when : {"before", "under way", "after"}) {
    Driver driver("until: \"1000s\"\n" +
                  job_text("a",
                           "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" } "
                           "checkpoint { every_steps: 2 } redundancy { copies: 1 every_steps: 3 }"));
    if (when == "before") driver.lose(0.5, {2}, 0.25);
    driver.feed(2, StepReached{0, 2});
    driver.feed(2.5, BackgroundDone{0, driver.only<Background>().tag});
    driver.feed(3.5, StepReached{0, 3});
    const int64_t tag = driver.only<Background>().tag;
    if (when == "under way") driver.lose(3.75, {2}, 0.25);
    driver.feed(4, BackgroundDone{0, tag});
    if (when == "after") driver.lose(4.25, {2}, 0.25);
    driver.lose(4.5, {3}, 0.25);
    driver.lose(4.75, {0, 1}, 0.25);
    ASSERT_EQ(driver.job().state, "reconfiguring") << driver.job().failure;
    for (const plan::Operation& operation : driver.only<Execute>().plan->operations()) {
      if (operation.hop > 0) continue;  // passed on by who has read it
      ASSERT_EQ(operation.src, plan::Location::storage()) << when;
    }
    driver.done(40);
    EXPECT_EQ(driver.reconfiguration(0).step, 2) << when << ": that of the checkpoint";
  }
}

TEST(LostState, ASnapshotUnderWayIsWorthlessWhenItsSourceDies) {
  Driver driver(sharded("checkpoint { every_steps: 4 }"));
  driver.feed(4, StepReached{0, 4});
  const int64_t tag = driver.only<Background>().tag;
  driver.lose(4.25, {2}, 0.5);
  EXPECT_TRUE(driver.feed(5, BackgroundDone{0, tag}).empty());
  driver.done(20);
  EXPECT_EQ(driver.reconfiguration(0).step, 0) << "only the initial state is in storage";
}

TEST(LostState, ACheckpointThatArrivesAfterARollbackDoesNotCount) {
  Driver restarting(sharded("checkpoint { every_steps: 4 before_change: false }"), "checkpoint-restart");
  restarting.feed(4, StepReached{0, 4});
  const int64_t tag = restarting.only<Background>().tag;
  restarting.feed(6.5, UserResize{0, 1});
  restarting.feed(7, StepReached{0, 6});  // back to step 0
  restarting.feed(8, BackgroundDone{0, tag});
  restarting.done(20);
  restarting.feed(20.5, UserResize{0, 2});
  restarting.feed(22, StepReached{0, 1});
  EXPECT_EQ(restarting.reconfiguration(1).rolled_back_steps, 1);
}

TEST(LostState, TheNewestSnapshotWins) {
  Driver driver(sharded("checkpoint { every_steps: 4 } redundancy { copies: 1 every_steps: 3 }"));
  driver.feed(3, StepReached{0, 3});
  driver.feed(3.25, BackgroundDone{0, driver.only<Background>().tag});
  driver.feed(4.5, StepReached{0, 4});
  driver.feed(4.75, BackgroundDone{0, driver.only<Background>().tag});
  driver.lose(5.75, {2});
  driver.done(30);
  EXPECT_EQ(driver.reconfiguration(0).step, 4);
}

TEST(LostState, CopiesThatNobodyGoesBackToAreForgotten) {
  Driver driver(sharded("checkpoint { every_steps: 4 }"));
  driver.feed(4, StepReached{0, 4});
  const int64_t first = driver.only<Background>().tag;
  driver.feed(5, BackgroundDone{0, first});
  EXPECT_EQ(driver.only<Forget>().snapshot, kInitialState) << "the first one counts";
  driver.feed(8.5, StepReached{0, 8});
  const int64_t second = driver.only<Background>().tag;
  EXPECT_TRUE(driver.none<Forget>());
  driver.lose(9, {2});
  EXPECT_EQ(driver.only<Forget>().snapshot, second) << "its source is lost";
  EXPECT_TRUE(driver.feed(20, BackgroundDone{0, second}).empty());
}

TEST(Repair, BeforeTheFailureIsNoticedStillLosesTheContent) {
  Driver driver(sharded("checkpoint { every_steps: 100 }") +
                "events { at: \"5.5s\" fail { devices: [2] } } events { at: \"6.5s\" repair { devices: [2] } }");
  driver.feed(5.5, TimerFired{1});
  driver.feed(6.5, TimerFired{2});
  driver.lose(5.5, {2});
  EXPECT_EQ(driver.only<Execute>().plan->dst_devices(), device_ids({0, 2})) << "the device itself is usable";
  EXPECT_GT(driver.only<Execute>().plan->bytes().from_storage, 0);
}

}  // namespace lost_state_test
}  // namespace scalai::control
