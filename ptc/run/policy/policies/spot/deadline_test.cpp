#include "ptc/run/policy/policies/spot/deadline.h"

#include <algorithm>

#include "ptc/base/random.h"
#include "ptc/run/policy/policies/spot/testing/support.h"

namespace scalai::policy {
namespace {

using spot::DeadlineRule;
using spot::make_deadline_policy;
using testing::due_job;
using testing::spot_event;
using testing::SpotRun;
using testing::Stay;
using Kind = FleetEvent::Kind;
using Stays = std::vector<Stay>;

// 100 s of work due at 200 s; spot until 30 s, and again from 80 s if `back`.
SpotRun one_job(DeadlineRule rule, bool back) {
  SpotRun run;
  run.fleet = testing::spot_fleet(1, 1);
  run.availability.events = {spot_event(30, Kind::kTaken, 0)};
  if (back) run.availability.events.push_back(spot_event(80, Kind::kUp, 0));
  run.workload.jobs = {due_job(100, 200)};
  run.run(*make_deadline_policy(rule, ""));
  return run;
}

TEST(Deadline, OnDemandOnly) { EXPECT_EQ(one_job(DeadlineRule::kOnDemandOnly, true).stays, (Stays{{0, "od"}})); }

TEST(Deadline, SpotOnlyWaits) {
  EXPECT_EQ(one_job(DeadlineRule::kSpotOnly, true).stays, (Stays{{0, "spot"}, {30, ""}, {80, "spot"}}));
}

// 70 s are left at 30; the net catches it at 200 - 70.
TEST(Deadline, GreedyWaitsForTheSafetyNet) {
  const SpotRun run = one_job(DeadlineRule::kGreedy, false);
  ASSERT_EQ(run.stays.size(), 3u);
  EXPECT_EQ(run.stays[1], (Stay{30, ""}));
  EXPECT_EQ(run.stays[2].where, "od");
  EXPECT_NEAR(run.stays[2].from_s, 130, 0.01);
  EXPECT_LE(run.outcome.jobs[0].finish_s, 200);
}

// The even pace is half a second a second: 30 s are due at 60.
TEST(Deadline, UniformProgressWaitsWhileAhead) {
  const SpotRun run = one_job(DeadlineRule::kUniformProgress, false);
  ASSERT_EQ(run.stays.size(), 3u);
  EXPECT_EQ(run.stays[0], (Stay{0, "spot"}));
  EXPECT_EQ(run.stays[1], (Stay{30, ""}));
  EXPECT_EQ(run.stays[2].where, "od");
  EXPECT_NEAR(run.stays[2].from_s, 60, 0.01);
  EXPECT_NEAR(run.outcome.jobs[0].finish_s, 130, 0.01);
}

// At 80: 50 s are done and 40 s due: back to spot.
TEST(Deadline, UniformProgressGoesBackWhenAhead) {
  const SpotRun run = one_job(DeadlineRule::kUniformProgress, true);
  ASSERT_EQ(run.stays.size(), 4u);
  EXPECT_EQ(run.stays[3], (Stay{80, "spot"}));
}

// With d = 10: on demand from 60 on, training from 70; at 80 it is behind e(80 + 20) = 50, at 100 both are at 60.
TEST(Deadline, UniformProgressGoesBackOnlyWithTwoChangesInHand) {
  SpotRun run;
  run.fleet = testing::spot_fleet(1, 1);
  run.availability.events = {spot_event(40, Kind::kTaken, 0), spot_event(80, Kind::kUp, 0)};
  run.workload.jobs = {due_job(100, 200)};
  run.change_s = 10;
  run.run(*make_deadline_policy(DeadlineRule::kUniformProgress, ""));
  ASSERT_GE(run.stays.size(), 4u);
  EXPECT_NEAR(run.stays[2].from_s, 60, 0.01);
  EXPECT_EQ(run.stays[2].where, "od");
  EXPECT_NEAR(run.stays[3].from_s, 100, 0.01);
  EXPECT_EQ(run.stays[3].where, "spot");
}

// Back on spot at 34 with 25 s of 31 done and 6 s to spare: they are used up in the change, at 40.
TEST(Deadline, AMoveBackToSpotUsesUpSlack) {
  SpotRun run;
  run.fleet = testing::spot_fleet(1, 1);
  run.availability.events = {spot_event(1, Kind::kTaken, 0), spot_event(29, Kind::kUp, 0)};
  run.workload.jobs = {due_job(31, 62)};
  run.change_s = 8;
  run.run(*make_deadline_policy(DeadlineRule::kUniformProgress, ""));
  ASSERT_EQ(run.stays.size(), 5u);
  EXPECT_EQ(run.stays[3], (Stay{34, "spot"}));
  EXPECT_EQ(run.stays[4].where, "od");
  EXPECT_NEAR(run.stays[4].from_s, 40, 0.01);
}

TEST(Deadline, ALateJobGoesOnDemandAtOnce) {
  SpotRun run;
  run.fleet = testing::spot_fleet(1, 1);
  run.workload.jobs = {due_job(100, 50)};
  run.run(*make_deadline_policy(DeadlineRule::kUniformProgress, ""));
  EXPECT_EQ(run.stays, (Stays{{0, "od"}}));
}

TEST(Deadline, WithoutADeadlineSpotElseOnDemand) {
  for (const DeadlineRule rule : {DeadlineRule::kGreedy, DeadlineRule::kUniformProgress}) {
    SpotRun run;
    run.fleet = testing::spot_fleet(1, 1);
    run.availability.events = {spot_event(30, Kind::kTaken, 0), spot_event(80, Kind::kUp, 0)};
    run.workload.jobs = {due_job(100, kNever)};
    run.run(*make_deadline_policy(rule, ""));
    EXPECT_EQ(run.stays, (Stays{{0, "spot"}, {30, ""}, {30, "od"}, {80, "spot"}}));
  }
}

TEST(Deadline, LeavesAHostUnderNotice) {
  SpotRun run;
  run.fleet = testing::spot_fleet(2, 0);
  FleetEvent notice = spot_event(30, Kind::kNotice, 0);
  notice.until_s = 60;
  run.availability.events = {notice, spot_event(60, Kind::kTaken, 0)};
  run.workload.jobs = {due_job(100, kNever)};
  run.run(*make_deadline_policy(DeadlineRule::kSpotOnly, ""));
  EXPECT_EQ(run.outcome.jobs[0].losses, 0);
  EXPECT_EQ(run.outcome.jobs[0].finish_s, 100);
}

// The net catches the first job while the second holds the only GPU on demand.
TEST(Deadline, TheSafetyNetGoesFirst) {
  SpotRun run;
  run.fleet = testing::spot_fleet(1, 1);
  run.availability.events = {spot_event(10, Kind::kTaken, 0)};
  run.workload.jobs = {due_job(50, 100), due_job(300, 5000)};
  run.run(*make_deadline_policy(DeadlineRule::kUniformProgress, ""));
  EXPECT_LE(run.outcome.jobs[0].finish_s, 100);
  EXPECT_LE(run.outcome.jobs[1].finish_s, 5000);
}

// The net catches the job while another one holds the only GPU on demand: it stays where it is.
TEST(Deadline, ACaughtJobKeepsItsSpotGpuWhenNoneIsOnDemand) {
  for (const DeadlineRule rule : {DeadlineRule::kGreedy, DeadlineRule::kUniformProgress}) {
    SpotRun run;
    run.fleet = testing::spot_fleet(2, 1);
    run.availability.events = {spot_event(100, Kind::kTaken, 0), spot_event(100, Kind::kTaken, 1),
                               spot_event(110, Kind::kUp, 0), spot_event(110, Kind::kUp, 1)};
    run.workload.jobs = {due_job(1000, 1305), due_job(3000, 2000)};  // the second is late from the start
    run.change_s = 100;
    run.run(*make_deadline_policy(rule, ""));
    EXPECT_EQ(run.stays.back().where, "spot");
    EXPECT_LT(run.outcome.jobs[0].finish_s, 1400);
  }
}

TEST(Deadline, LateJobsRunBesideEachOther) {
  SpotRun run;
  run.fleet = testing::spot_fleet(2, 1);
  for (int i = 0; i < 3; ++i) run.workload.jobs.push_back(due_job(1000, 500));
  run.run(*make_deadline_policy(DeadlineRule::kGreedy, ""));
  for (const JobRecord& record : run.outcome.jobs) EXPECT_EQ(record.finish_s, 1000);
}

// With 5 ms of slack that never change while it trains, there is nothing to decide.
TEST(Deadline, LooksSeldomAtAJobThatTrains) {
  SpotRun run;
  run.fleet = testing::spot_fleet(1, 1);
  run.workload.jobs = {due_job(3600, 3600.005)};
  run.run(*make_deadline_policy(DeadlineRule::kGreedy, ""));
  EXPECT_EQ(run.stays, (Stays{{0, "spot"}}));
  EXPECT_LT(run.outcome.decisions, 10);
}

TEST(Deadline, RefusesWhatCanNeverRun) {
  SpotRun run;
  run.fleet = testing::spot_fleet(4, 1);
  run.workload.jobs = {due_job(50, kNever, 2)};
  run.run(*make_deadline_policy(DeadlineRule::kOnDemandOnly, ""));
  EXPECT_EQ(run.outcome.jobs[0].end, JobEnd::kRefused);
  EXPECT_NE(run.outcome.policy_remarks.find("1 jobs too large"), std::string::npos);
}

// Never late where two changes and the work fit before the deadline, whatever the market does; spot may be slower or
// faster.
TEST(Deadline, TheSafetyNetKeepsEveryDeadlineItCan) {
  int64_t on_spot = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SpotRun run;
    const int jobs = static_cast<int>(random.between(1, 6));
    const int spot = static_cast<int>(random.between(1, 8));
    run.change_s = random.below(3) == 0 ? 0 : random.uniform() * 60;
    run.throughput = testing::PlainThroughput({0.4 + random.uniform(), 1});
    int demand = 0;
    for (int i = 0; i < jobs; ++i) {
      Job job = due_job(100 + random.uniform() * 3000, 0, static_cast<int>(random.between(1, 3)));
      job.submit_s = (i == 0 ? 0 : run.workload.jobs.back().submit_s) + random.uniform() * 500;
      job.deadline_s = job.submit_s + job.work + 2 * run.change_s + random.uniform() * 4000 + 0.01;
      demand += job.gpus;
      run.workload.jobs.push_back(job);
    }
    run.fleet = testing::spot_fleet(spot, demand);
    std::vector<uint8_t> up(static_cast<size_t>(spot), 1);
    for (double at_s = 0; at_s < 9000;) {
      at_s += random.uniform() * 200;
      const int host = static_cast<int>(random.below(spot));
      uint8_t& there = up[static_cast<size_t>(host)];
      run.availability.events.push_back(spot_event(at_s, there != 0 ? Kind::kTaken : Kind::kUp, host));
      there = there == 0;
    }
    const bool greedy = random.below(2) == 0;
    run.run(*make_deadline_policy(greedy ? DeadlineRule::kGreedy : DeadlineRule::kUniformProgress, ""));
    if (::testing::Test::HasFatalFailure()) return;
    for (const JobRecord& record : run.outcome.jobs) {
      EXPECT_EQ(record.end, JobEnd::kFinished);
      EXPECT_LE(record.finish_s, run.workload.jobs[static_cast<size_t>(record.job.value)].deadline_s + 0.01);
    }
    on_spot += std::any_of(run.stays.begin(), run.stays.end(), [](const Stay& stay) { return stay.where == "spot"; });
  }
  EXPECT_GT(on_spot, 100);  // it is not on demand all the time
}

}  // namespace
}  // namespace scalai::policy
