#include "ptc/run/policy/policies/shares/round_policy.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/change.h"
#include "sim/jobs/engine.h"

namespace scalai::policy {
namespace {

using testing::PlainThroughput;
using testing::rigid_job;

std::unique_ptr<ShareRule> max_min_rule() { return std::make_unique<ProgramRule>(max_min_shares, PopOptions{}); }

struct World {
  Workload workload;
  Fleet fleet;
  Availability availability;
  std::unique_ptr<Throughput> throughput = std::make_unique<PlainThroughput>();
  double change_s = 0;

  absl::StatusOr<Outcome> run(const RoundOptions& options, std::unique_ptr<ShareRule> rule = max_min_rule()) const {
    RoundPolicy policy(options, std::move(rule), {});
    const std::unique_ptr<jobs::ChangeModel> changes =
        jobs::make_constant_changes({.change_s = change_s, .start_s = 0});
    jobs::Setup setup;
    setup.workload = &workload;
    setup.fleet = &fleet;
    setup.availability = &availability;
    setup.throughput = throughput.get();
    setup.policy = &policy;
    setup.changes = changes.get();
    return jobs::run(setup);
  }
};

World one_type(int gpus, std::vector<Job> jobs) {
  World world;
  world.workload.jobs = std::move(jobs);
  world.fleet = testing::plain_fleet(gpus, 1);
  return world;
}

TEST(RoundPolicy, JobsTakeTurnsAndPlacesWaitForTheRoundToEnd) {
  // Two jobs of 500 s, one GPU: a, b, a's last 140 s, b's last 140 s.
  const World world = one_type(1, {rigid_job("a", 0, 1, 500), rigid_job("b", 0, 1, 500)});
  const auto outcome = world.run({});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_NEAR(outcome->jobs[0].finish_s, 860, 1e-3);
  EXPECT_NEAR(outcome->jobs[1].finish_s, 1000, 1e-3);
  EXPECT_EQ(outcome->policy_remarks.substr(0, 8), "4 rounds") << outcome->policy_remarks;
}

TEST(RoundPolicy, AJobThatEndsEarlyFreesNothingBeforeTheRoundEnds) {
  const World world = one_type(2, {rigid_job("a", 0, 1, 1000), rigid_job("b", 0, 1, 100), rigid_job("c", 0, 2, 50)});
  const auto outcome = world.run({});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  // Whoever begins: when b has run, its GPU idles until the round is over.
  const double b = outcome->jobs[1].finish_s;
  EXPECT_TRUE(std::abs(b - 100) < 1e-3 || std::abs(b - 150) < 1e-3) << b;
}

TEST(RoundPolicy, WhoIsChosenAgainKeepsItsGpus) {
  World world = one_type(2, {rigid_job("a", 0, 1, 2000), rigid_job("b", 10, 1, 2000)});
  world.change_s = 50;
  const auto outcome = world.run({});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->jobs[0].restarts, 0);
  EXPECT_NEAR(outcome->jobs[0].finish_s, 2000, 1e-3);
  EXPECT_NEAR(outcome->jobs[1].first_start_s, 360, 1e-3);  // came in the middle of a round
}

TEST(RoundPolicy, SharesAreNotComputedAgainBeforeTheReset) {
  std::vector<Job> jobs;
  for (int k = 0; k < 10; ++k) jobs.push_back(rigid_job(fmt::format("j{}", k), 400.0 * k, 1, 3000));
  const World world = one_type(10, jobs);
  const auto often = world.run({.reset_s = 0});
  const auto seldom = world.run({.reset_s = 3600});
  ASSERT_TRUE(often.ok() && seldom.ok());
  const auto allocations = [](const Outcome& outcome) {
    const size_t begin = outcome.policy_remarks.find("; ") + 2;
    return std::stoi(outcome.policy_remarks.substr(begin));
  };
  EXPECT_GT(allocations(*often), 10);
  EXPECT_LE(allocations(*seldom), 4);
  EXPECT_NEAR(often->jobs[2].first_start_s, 1080, 1e-3);  // the round after it came
  // Shares of the first instant are renewed at once, as in Gavel; job 2 waits until the reset, or until nobody else
  // runs.
  EXPECT_NEAR(seldom->jobs[1].first_start_s, 720, 1e-3);
  EXPECT_GE(seldom->jobs[2].first_start_s, 3000);
}

TEST(RoundPolicy, LostHostsAreNoticedAtOnce) {
  World world = one_type(2, {rigid_job("a", 0, 1, 1000), rigid_job("b", 0, 1, 1000)});
  world.availability.events = {{.at_s = 100, .kind = FleetEvent::Kind::kFailed, .hosts = {HostId(0)}},
                               {.at_s = 500, .kind = FleetEvent::Kind::kUp, .hosts = {HostId(0)}}};
  const auto outcome = world.run({});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  for (const JobRecord& job : outcome->jobs) {
    EXPECT_EQ(job.end, JobEnd::kFinished);
  }
  // 2 x 1000 s of work on two GPUs with 400 s of one missing: done by 1200 s, give or take the turns.
  EXPECT_LE(std::max(outcome->jobs[0].finish_s, outcome->jobs[1].finish_s), 1400 + 1e-3);
}

TEST(RoundPolicy, HostsThatComeAreUsedBeforeTheReset) {
  World world;
  world.fleet.types = {{"fast", 0}, {"slow", 0}};
  world.fleet.hosts = {{GpuType(0), 1}, {GpuType(1), 1}};
  world.workload.jobs = {rigid_job("a", 0, 1, 3600)};
  world.throughput = std::make_unique<PlainThroughput>(std::vector<double>{1, 0.25});
  world.availability.up = {0, 1};
  world.availability.events = {{.at_s = 500, .kind = FleetEvent::Kind::kUp, .hosts = {HostId(0)}}};
  const auto outcome = world.run({.reset_s = 1e6});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_NEAR(outcome->jobs[0].finish_s, 500 + (3600 - 125), 1e-3);
}

TEST(RoundPolicy, PairsShareGpus) {
  World world = one_type(1, {rigid_job("a", 0, 1, 720), rigid_job("b", 0, 1, 720)});
  world.throughput = std::make_unique<PlainThroughput>(std::vector<double>{}, 0.8);
  const auto packed = world.run({.packing = true});
  const auto apart = world.run({});
  ASSERT_TRUE(packed.ok()) << packed.status();
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_NEAR(packed->jobs[0].finish_s, 900, 1);  // both at 0.8
  EXPECT_NEAR(packed->jobs[1].finish_s, 900, 1);
  EXPECT_NEAR(apart->jobs[1].finish_s, 1440, 1e-3);
}

TEST(RoundPolicy, JobsGoWhereTheyAreFastUnlessThePolicyIsBlind) {
  World world;
  world.fleet.types = {{"fast", 0}, {"slow", 0}};
  world.fleet.hosts = {{GpuType(0), 1}, {GpuType(1), 1}};
  world.workload.jobs = {rigid_job("a", 0, 1, 3600)};
  world.throughput = std::make_unique<PlainThroughput>(std::vector<double>{1, 0.25});
  const auto aware = world.run({});
  ASSERT_TRUE(aware.ok());
  EXPECT_NEAR(aware->jobs[0].finish_s, 3600, 1e-3);
  double slowest = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const auto blind = world.run({.speeds = RoundOptions::Speeds::kNone, .shuffle_types = true, .seed = seed});
    ASSERT_TRUE(blind.ok());
    slowest = std::max(slowest, blind->jobs[0].finish_s);
  }
  EXPECT_GT(slowest, 4000);
}

TEST(RoundPolicy, ARoundOfNoLengthIsRefused) {
  const World world = one_type(1, {rigid_job("a", 0, 1, 10)});
  EXPECT_TRUE(absl::IsInvalidArgument(world.run({.round_s = 0}).status()));
}

class FailingRule : public ShareRule {
 public:
  absl::StatusOr<Shares> shares(const ShareProblem& /*problem*/) override { return invalid("no share for this"); }
};

TEST(RoundPolicy, ErrorsOfTheRuleEndTheRun) {
  const World world = one_type(4, {rigid_job("a", 0, 2, 10)});
  const auto outcome = world.run({}, std::make_unique<FailingRule>());
  ASSERT_TRUE(absl::IsInvalidArgument(outcome.status()));
  EXPECT_NE(message_of(outcome.status()).find("no share for this"), std::string::npos);
}

}  // namespace
}  // namespace scalai::policy
