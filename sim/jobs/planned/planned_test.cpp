#include "sim/jobs/planned/planned.h"

#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "sim/jobs/planned/change_plan.h"
#include "sim/jobs/planned/testing/support.h"

namespace scalai::jobs {
namespace {

using ::testing::HasSubstr;
using testing::hosts_from;
using testing::Machine;
using testing::World;

// A model of its own for each test: gpt3-xl on hosts of four A100, nothing shared.
class PlannedTest : public ::testing::Test {
 protected:
  explicit PlannedTest(const std::string& pins = "") : world_(Machine{.hosts = 8}, {.pins = pins}) {
    job_ = world_.add("gpt3-xl", 64);
    options_.strategy.costs.communicator_s = 3;
    options_.strategy.costs.messages = {};
    options_.strategy.costs.verify_bytes_per_s = 0;
    make();
  }
  void make() {
    fabric_ = make_unshared_fabric(world_.cluster);
    changes_ = make_planned_changes(*world_.configurations, *fabric_, options_);
  }

  policy::Placement on(int first_host, int gpus) const { return hosts_from(world_.cluster, first_host, gpus); }

  struct Ask {
    ChangeCause cause = ChangeCause::kPolicy;
    std::vector<int> lost = {};
    double work_done = 0;
  };
  // Lost work.
  double begin(const policy::Placement& from, const policy::Placement& to, double now_s, const Ask& ask) {
    Change change{.job = policy::JobId(0), .spec = &job_, .from = &from, .to = &to, .cause = ask.cause, .now_s = now_s};
    for (const int host : ask.lost) change.lost.emplace_back(host);
    change.work_done = ask.work_done;
    const absl::StatusOr<double> lost = changes_->begin(change);
    SCALAI_CHECK(lost.ok(), message_of(lost.status()));
    return *lost;
  }
  // Until the change ends; when that was.
  double finish() {
    for (int instants = 0; instants < 100; ++instants) {
      const double at_s = changes_->next_end_s();
      SCALAI_CHECK(at_s < policy::kNever, "nothing is under way");
      const std::vector<ChangeEnd> ended = changes_->advance(at_s);
      if (!ended.empty()) return ended.front().at_s;
    }
    SCALAI_CHECK(false, "it does not end");
    return 0;
  }
  double start(const policy::Placement& to) {
    begin({}, to, 0, {.cause = ChangeCause::kStart});
    const double at_s = finish();
    changes_->training(policy::JobId(0), job_, to, at_s);
    return at_s;
  }
  double step_s(const policy::Placement& placement) const {
    return world_.configurations->best(job_, placement)->step_s;
  }

  World world_;
  policy::Job job_;
  std::unique_ptr<Fabric> fabric_;
  PlannedOptions options_;
  std::unique_ptr<PlannedChanges> changes_;
};

TEST_F(PlannedTest, FirstGpusTakeRestartAndCommunicators) {
  options_.strategy.costs.restart_s = 10;
  make();
  EXPECT_EQ(start(on(0, 4)), 13);
  EXPECT_EQ(changes_->counts().started, 1);
  EXPECT_EQ(changes_->counts().plans, 0);
}

// Plan 0.1 s, transfer_start 1 ms, the bytes over the hottest link, communicators 3 s.
TEST_F(PlannedTest, GrowingTakesItsPlansBytes) {
  start(on(0, 4));
  EXPECT_EQ(begin(on(0, 4), on(0, 8), 100, {.work_done = 10.5}), 0);
  const double took_s = finish() - 100;
  const Configuration* to = world_.configurations->best(job_, policy::GpuType(0), 8);
  const HeldState held{.model = to->model,
                       .config = world_.configurations->best(job_, policy::GpuType(0), 4)->config,
                       .devices = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)}};
  std::vector<DeviceId> devices;
  for (int d = 0; d < 8; ++d) devices.emplace_back(d);
  ChangePlanner planner(world_.cluster, options_.strategy);
  const auto planned = planner.plan({.from = &held, .lost = {}, .to = to, .devices = devices}).value();
  double bytes_s = 0;
  for (const ChangeStage& stage : planned.shape->stages) {
    if (stage.flows != nullptr) bytes_s += fabric_->alone_s(stage.flows, planned.hosts);
  }
  EXPECT_GT(bytes_s, 0.01);
  EXPECT_NEAR(took_s, 0.1 + 0.001 + bytes_s + 3, 1e-9);
  EXPECT_EQ(changes_->counts().bytes, planned.shape->bytes);
  EXPECT_EQ(changes_->counts().from_survivors, 1);
}

class ReplicatedTest : public PlannedTest {
 protected:
  ReplicatedTest() : PlannedTest("tp4,pp1,zero0") {}
};

// Two replicas, one on each host.
TEST_F(ReplicatedTest, ALossThatSurvivorsCoverCostsTheStepUnderWay) {
  start(on(0, 8));
  const double lost = begin(on(0, 8), on(1, 4), 100, {.cause = ChangeCause::kLost, .lost = {0}, .work_done = 10.25});
  EXPECT_DOUBLE_EQ(lost, 0.25);
  EXPECT_EQ(changes_->counts().from_survivors, 1);
  EXPECT_GE(finish() - 100, 15 + 0.1 + 3 - 1e-9);  // detected after 15 s
  EXPECT_EQ(changes_->counts().bytes.cross_host, 0);
  EXPECT_EQ(changes_->counts().bytes.from_storage, 0);
}

class ShardedTest : public PlannedTest {
 protected:
  ShardedTest() : PlannedTest("tp4,pp1,zero1") {}
};

TEST_F(ShardedTest, WithoutCheckpointsALostShardMeansToBeginAgain) {
  start(on(0, 8));
  EXPECT_DOUBLE_EQ(begin(on(0, 8), on(1, 4), 100, {.cause = ChangeCause::kLost, .lost = {0}, .work_done = 10.25}),
                   10.25);
  EXPECT_EQ(finish(), 100 + 15 + 3);
}

// One checkpoint every 4 steps: of 10.25 the last 2.25 are run again. Everything comes from storage.
TEST_F(ShardedTest, WithCheckpointsTheLastOneIsRead) {
  options_.checkpoint_every_s = 4 * step_s(on(0, 8));
  make();
  start(on(0, 8));
  EXPECT_DOUBLE_EQ(begin(on(0, 8), on(1, 4), 100, {.cause = ChangeCause::kLost, .lost = {0}, .work_done = 10.25}),
                   2.25);
  EXPECT_EQ(changes_->counts().from_storage, 1);
  const int64_t bytes = changes_->counts().bytes.from_storage;
  EXPECT_EQ(changes_->counts().bytes.kept, 0);
  EXPECT_NEAR(finish() - 100, 15 + 0.1 + 0.001 + static_cast<double>(bytes) / 20e9 + 3, 1e-6);
  // It goes on at 8. A planned change keeps all of its work; what a loss takes counts from that checkpoint on.
  changes_->training(policy::JobId(0), job_, on(1, 4), 200);
  options_.checkpoint_every_s = 0;
  EXPECT_EQ(begin(on(1, 4), on(1, 8), 300, {.work_done = 9.5}), 0);
}

TEST_F(ShardedTest, CheckpointsCountFromTheLastOne) {
  const double eight_s = step_s(on(0, 8));
  options_.checkpoint_every_s = 4 * eight_s;
  make();
  start(on(0, 8));
  begin(on(0, 8), on(2, 8), 100, {.work_done = 9});  // checkpoints at 4 and 8
  const double at_s = finish();
  changes_->training(policy::JobId(0), job_, on(2, 8), at_s);
  EXPECT_DOUBLE_EQ(begin(on(2, 8), on(4, 8), 200, {.cause = ChangeCause::kTaken, .lost = {2}, .work_done = 11.5}), 3.5);
  EXPECT_GE(finish() - 200, 0.1 + 3 - 1e-9);  // taken after a notice: nothing to detect
}

// A host that was lost and repaired holds the new epoch as any other does.
TEST_F(ShardedTest, LossesAreForgottenWithTheEpoch) {
  options_.checkpoint_every_s = 4 * step_s(on(0, 8));
  make();
  start(on(0, 8));
  begin(on(0, 8), on(0, 8), 100, {.cause = ChangeCause::kLost, .lost = {0}, .work_done = 9});
  const double at_s = finish();
  changes_->training(policy::JobId(0), job_, on(0, 8), at_s);
  EXPECT_EQ(begin(on(0, 8), on(0, 4), 200, {.work_done = 11}), 0);
  EXPECT_EQ(changes_->counts().from_survivors, 1);
}

// Of 7.25 iterations 4 are in a checkpoint. By plan all are saved, after a notice the whole ones, else those 4.
TEST_F(ShardedTest, FromCheckpointStrategiesSaveFirstWhereTheyCan) {
  options_.strategy.from_checkpoint = true;
  options_.strategy.planner = {.name = "checkpoint-restart", .sources = plan::SourceRule::kStorage};
  options_.strategy.placement = {};
  options_.checkpoint_every_s = 4 * step_s(on(0, 8));
  make();
  start(on(0, 8));
  EXPECT_EQ(begin(on(0, 8), on(0, 4), 100, {.work_done = 7.25}), 0);
  const double saved_s = finish();
  for (const auto& [cause, lost] : {std::pair(ChangeCause::kTaken, 0.25), std::pair(ChangeCause::kLost, 3.25)}) {
    make();
    start(on(0, 8));
    EXPECT_DOUBLE_EQ(begin(on(0, 8), on(0, 4), 100, {.cause = cause, .lost = {1}, .work_done = 7.25}), lost);
    EXPECT_EQ(changes_->counts().from_storage, 1);
  }
  options_.strategy.save_first = false;
  make();
  start(on(0, 8));
  EXPECT_DOUBLE_EQ(begin(on(0, 8), on(0, 4), 100, {.work_done = 7.25}), 3.25);
  const JobModel& model = world_.configurations->models().model_of(job_);
  const auto bytes = static_cast<double>(model::state_bytes(model.model, model.recipe, /*per_home=*/false));
  EXPECT_NEAR(saved_s - finish(), bytes / world_.cluster.storage_write_bytes_per_s, 1e-6);
}

// Leaving host 1, which fails while it is still being copied from: it does not hold a shard of its own any more.
TEST_F(ShardedTest, AHostThatFailsWhileStateComesFromItIsMissed) {
  start(on(0, 8));
  EXPECT_EQ(begin(on(0, 8), on(0, 4), 100, {.work_done = 10.25}), 0);
  changes_->advance(100.05);
  const auto lost = changes_->host_lost(HostId(1), ChangeCause::kLost, 100.05);
  ASSERT_TRUE(lost.ok()) << message_of(lost.status());
  ASSERT_EQ(lost->size(), 1U);
  EXPECT_EQ(lost->front().job, policy::JobId(0));
  EXPECT_DOUBLE_EQ(lost->front().iterations, 10.25);
  EXPECT_DOUBLE_EQ(finish(), 100.05 + 15 + 3);  // detected, begun again
  EXPECT_EQ(changes_->counts().changes, 2);
}

TEST_F(ShardedTest, AHostThatFailsWhileStateComesFromItMeansTheLastCheckpoint) {
  options_.checkpoint_every_s = 4 * step_s(on(0, 8));
  make();
  start(on(0, 8));
  begin(on(0, 8), on(0, 4), 100, {.work_done = 10.25});
  changes_->advance(100.05);
  const auto lost = changes_->host_lost(HostId(1), ChangeCause::kTaken, 100.05);
  ASSERT_TRUE(lost.ok() && lost->size() == 1);
  EXPECT_DOUBLE_EQ(lost->front().iterations, 2.25);
  EXPECT_EQ(changes_->counts().from_storage, 1);
  // All of it comes from storage now: losing host 1 once more takes nothing.
  EXPECT_TRUE(changes_->host_lost(HostId(1), ChangeCause::kLost, 100.05)->empty());
}

// Given up before the host fails: the old epoch was on it, wherever the job was going.
TEST_F(ShardedTest, AHostThatFailsWhileTheJobWaitsIsMissedToo) {
  start(on(0, 8));
  begin(on(0, 8), on(0, 4), 100, {.work_done = 10});
  changes_->cancel(policy::JobId(0), 100.05);
  EXPECT_TRUE(changes_->host_lost(HostId(1), ChangeCause::kLost, 101)->empty());
  EXPECT_DOUBLE_EQ(begin(on(0, 4), on(2, 8), 102, {.cause = ChangeCause::kResume, .work_done = 10}), 10);
}

// When the bytes have come the host they came from may go.
TEST_F(ShardedTest, AHostThatFailsAfterTheBytesCameIsNotMissed) {
  start(on(0, 8));
  begin(on(0, 8), on(0, 4), 100, {.work_done = 10});
  const double done_s = finish();
  make();
  start(on(0, 8));
  begin(on(0, 8), on(0, 4), 100, {.work_done = 10});
  changes_->advance(done_s - 1);  // communicators take the last 3 s
  EXPECT_TRUE(changes_->host_lost(HostId(1), ChangeCause::kLost, done_s - 1)->empty());
  EXPECT_DOUBLE_EQ(finish(), done_s);
  changes_->training(policy::JobId(0), job_, on(0, 4), done_s);
  EXPECT_EQ(begin(on(0, 4), on(2, 4), done_s + 10, {.work_done = 12}), 0);
}

// Preempted: what it keeps comes back from the host's memory over PCIe.
TEST_F(ReplicatedTest, WhatWaitedComesBackOverPcie) {
  const double started_s = start(on(0, 4));
  changes_->idle(policy::JobId(0), started_s + 10);
  begin(on(0, 4), on(0, 4), 100, {.cause = ChangeCause::kResume, .work_done = 5.5});
  const plan::ClassBytes bytes = changes_->counts().bytes;
  EXPECT_EQ(bytes.moved() + bytes.same_device + bytes.from_storage, 0);
  const double a_gpu = static_cast<double>(bytes.kept) / 4 / cluster::reached(world_.cluster.hosts[0]).pcie_bytes_per_s;
  EXPECT_NEAR(finish() - 100, 0.1 + a_gpu + 3, 0.01 * a_gpu);
}

TEST_F(ReplicatedTest, AChangeThatIsGivenUpLeavesTheOldState) {
  start(on(0, 4));
  begin(on(0, 4), on(2, 4), 100, {.work_done = 5});
  changes_->cancel(policy::JobId(0), 100.05);
  EXPECT_EQ(changes_->next_end_s(), policy::kNever);
  begin(on(2, 4), on(0, 4), 101, {.cause = ChangeCause::kResume, .work_done = 5});
  finish();
  EXPECT_EQ(changes_->counts().bytes.moved(), changes_->counts().bytes.kept);  // one way, then nothing
}

TEST_F(ReplicatedTest, ASecondChangeReplacesTheFirst) {
  start(on(0, 4));
  begin(on(0, 4), on(0, 8), 100, {.work_done = 5});
  begin(on(0, 8), on(0, 4), 100.05, {.work_done = 5});
  EXPECT_NEAR(finish(), 100.05 + 0.1 + 3, 1e-9);  // nothing had come: all is in place
  EXPECT_EQ(changes_->next_end_s(), policy::kNever);
}

TEST_F(PlannedTest, WritingCheckpointsSlowsTrainingDownEvenly) {
  options_.checkpoint_every_s = 90;
  options_.checkpoint_write_s = 10;
  make();
  start(on(0, 8));
  EXPECT_DOUBLE_EQ(changes_->step_rate(policy::JobId(0)), 0.9);
}

TEST_F(PlannedTest, NothingFits) {
  const policy::Job large = world_.add("gpt3-13b", 64);
  make();
  const policy::Placement from, to = on(0, 1);
  const Change change{.job = policy::JobId(1), .spec = &large, .from = &from, .to = &to, .cause = ChangeCause::kStart};
  const absl::Status status = changes_->begin(change).status();
  EXPECT_EQ(exit_code_of(status), 3);
  EXPECT_THAT(message_of(status), HasSubstr("no configuration of gpt3-13b fits the 1 GPUs"));
}

TEST_F(PlannedTest, TheSameChangeIsFoundTheSecondTime) {
  start(on(0, 4));
  double now_s = 10;
  for (int round = 0; round < 3; ++round) {
    begin(on(0, 4), on(0, 8), now_s, {});
    now_s = finish();
    begin(on(0, 8), on(0, 4), now_s, {});
    now_s = finish();
  }
  EXPECT_EQ(changes_->counts().plans, 2);
  EXPECT_EQ(changes_->counts().plan_hits, 4);
  EXPECT_EQ(changes_->counts().changes, 7);
}

TEST_F(PlannedTest, WhatIsExpectedIsWhatHappens) {
  start(on(0, 4));
  const double expected_s = changes_->expected_s(job_, 4, 8);
  begin(on(0, 4), on(0, 8), 100, {});
  EXPECT_NEAR(finish() - 100, expected_s, 1e-9);
  EXPECT_NEAR(changes_->expected_s(job_, 4, 8), expected_s, 1e-9);
  EXPECT_EQ(changes_->expected_s(job_, 0, 8), 3);  // a start
  EXPECT_EQ(changes_->expected_s(job_, 8, 8), 0);
  EXPECT_EQ(changes_->expected_s(job_, 8, 0), 0);
}

// Strategies by way of host memory stage before, upload behind the rounds and load at the end.
TEST_F(ReplicatedTest, StagedStrategiesGoThroughHostMemory) {
  options_.strategy.planner = {.name = "tenplex", .in_place = false, .sources = plan::SourceRule::kFirstReplica};
  options_.strategy.placement = {};
  make();
  start(on(0, 4));
  begin(on(0, 4), on(0, 8), 100, {});
  const double staged_s = finish() - 100;
  options_.strategy.planner = {.name = "reshard"};
  options_.strategy.placement = {.rule = plan::PlacementRule::kHosts};
  make();
  start(on(0, 4));
  begin(on(0, 4), on(0, 8), 100, {});
  EXPECT_GT(staged_s, finish() - 100);
}

}  // namespace
}  // namespace scalai::jobs
