#include "ptc/run/control/internal/lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/control/testing/parts_fixture.h"

namespace scalai::control {
namespace {

using ::testing::IsEmpty;
using testing::Parts;
using testing::sized_job;
using ::testing::SizeIs;

struct Lives : Parts {
  explicit Lives(const std::string& text, bool reads_samples = false)
      : Parts("until: \"100s\"\n" + text, reads_samples),
        strategy(scenario::strategies().front()),
        records(scenario, jobs),
        snapshots(condition, turn),
        policy(scenario, strategy, jobs, condition, turn, nullptr),
        lifecycle(jobs, records, snapshots, policy, turn) {
    turn.now_s = 40;
  }
  const scenario::Strategy strategy;
  RunRecords records;
  Snapshots snapshots;
  PolicyLoop policy;
  Lifecycle lifecycle;
};

TEST(Lifecycle, TheRunIsOverWithItsLastJob) {
  Lives parts(sized_job("a") + sized_job("b"));
  parts.lifecycle.complete(parts.train(0, 1, {0, 1}));
  EXPECT_EQ(parts.jobs[0].mode, Mode::kComplete);
  EXPECT_EQ(parts.jobs[0].accounts.record.wall_s, 40);
  EXPECT_EQ(parts.turn.freed_by, "a");
  EXPECT_FALSE(parts.lifecycle.ending());
  EXPECT_THAT(parts.all<Stop>(), IsEmpty());
  parts.lifecycle.stop(parts.train(1, 1, {2, 3}));
  EXPECT_EQ(parts.jobs[1].devices.size(), 2u) << "a stopped job keeps its devices";
  EXPECT_TRUE(parts.lifecycle.over());
  EXPECT_THAT(parts.all<Stop>(), SizeIs(1));
  parts.lifecycle.end();
  EXPECT_THAT(parts.all<Stop>(), SizeIs(1)) << "once";
}

TEST(Lifecycle, TheEndAwaitsAccountsOfSamples) {
  Lives parts(sized_job("a", "dataset { samples: 100 }"), /*reads_samples=*/true);
  Job& job = parts.train(0, 1, {0, 1});
  job.ledger->done(2, 1);
  parts.lifecycle.end();
  EXPECT_TRUE(parts.lifecycle.ending());
  EXPECT_FALSE(parts.lifecycle.over());
  EXPECT_FALSE(job.ledger->account(SamplesRead{}).ok());  // what does not fit is not awaited any more
  parts.lifecycle.end();
  EXPECT_TRUE(parts.lifecycle.over());
}

TEST(Lifecycle, AFailureEndsTheReconfigurationUnderWay) {
  Lives parts(sized_job("a") + sized_job("b"));
  Job& job = parts.train(0, 1, {0, 1});
  job.mode = Mode::kReconfiguring;
  job.underway = Underway{};
  parts.lifecycle.fail(job, "nobody has it");
  EXPECT_EQ(job.mode, Mode::kFailed);
  EXPECT_EQ(job.accounts.record.failure, "nobody has it");
  EXPECT_THAT(job.accounts.record.reconfigurations, SizeIs(1));
  EXPECT_FALSE(job.underway.has_value());
  EXPECT_THAT(job.devices, IsEmpty());
}

TEST(Lifecycle, SamplesThatDoNotAddUpFailAJobWhereverItIs) {
  Lives parts(sized_job("a", "", 2) + sized_job("b", "", 2) + sized_job("c", "", 2) + sized_job("d", "", 2));
  Job& trains = parts.train(0, 1, {0, 1});
  trains.copies.in_flight[7] = {true, trains.state};
  parts.lifecycle.misread(trains, "no");
  EXPECT_THAT(parts.all<Halt>(), SizeIs(1));
  EXPECT_THAT(parts.all<Forget>(), SizeIs(1));
  Job& moves = parts.train(1, 1, {2, 3});
  moves.mode = Mode::kReconfiguring;
  moves.underway = Underway{};
  parts.lifecycle.misread(moves, "no");
  EXPECT_THAT(parts.all<Abort>(), SizeIs(1));
  parts.lifecycle.misread(parts.jobs[2], "no");  // waits
  parts.lifecycle.complete(parts.train(3, 1, {4, 5}));
  parts.lifecycle.misread(parts.jobs[3], "no");
  for (const Job& job : parts.jobs) EXPECT_EQ(job.mode, Mode::kFailed) << job.index;
}

TEST(Lifecycle, AStopIsRequestedOnce) {
  Lives parts(sized_job("a"));
  EXPECT_FALSE(parts.lifecycle.stopping());
  parts.lifecycle.request_stop();
  EXPECT_TRUE(parts.lifecycle.stopping());
  EXPECT_FALSE(parts.lifecycle.ending()) << "jobs write their last checkpoints first";
  parts.lifecycle.give_up();
  EXPECT_TRUE(parts.lifecycle.over());
}

}  // namespace
}  // namespace scalai::control
