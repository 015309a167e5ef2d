#include "labs/validation/policies/emulations/gavel_rules.h"

#include "gtest/gtest.h"
#include "labs/validation/policies/emulations/pollux_optimus.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy::validation {
namespace {

ShareProblem jobs_on(std::vector<int> gpus, const std::vector<int>& wanted) {
  ShareProblem problem;
  problem.gpus = std::move(gpus);
  for (const int want : wanted) {
    ShareJob& job = problem.jobs.emplace_back();
    job.id = JobId(static_cast<int64_t>(problem.jobs.size()) - 1);
    job.gpus = want;
    job.remaining = 100;
    for (size_t j = 0; j < problem.gpus.size(); ++j) job.rates.push_back(1.0 / static_cast<double>(j + 1));
  }
  return problem;
}

TEST(GavelFifo, JobsPileUpOnTheFastestType) {
  const ShareProblem problem = jobs_on({2, 4, 4}, {1, 2, 1, 4, 1, 1});
  GavelFifo rule;
  const auto shares = rule.shares(problem);
  ASSERT_TRUE(shares.ok());
  for (size_t m = 0; m < 6; ++m) {
    EXPECT_EQ(shares->alone[m], (std::vector<double>{1, 0, 0})) << m;  // 10 GPUs wanted of 2, while 8 others are idle
  }
}

TEST(GavelFifo, TheHeadOfTheQueueTakesAFreedPlace) {
  ShareProblem problem = jobs_on({1, 1}, {1, 1, 1});
  GavelFifo rule;
  const auto first = rule.shares(problem);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->alone[0], (std::vector<double>{1, 0}));
  EXPECT_EQ(first->alone[1], (std::vector<double>{0, 0}));
  problem.jobs.erase(problem.jobs.begin());
  const auto second = rule.shares(problem);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->alone[0], (std::vector<double>{1, 0}));
}

TEST(GavelGandiva, SumsTheWorthOfAPairOverTypes) {
  // 0.3 + 0.3 on each of two types: 0.6 on the best, 1.2 summed.
  ShareProblem problem = jobs_on({1, 0}, {1, 1});
  problem.pairs = {{0, 1, GpuType(0), 0.3, 0.3}, {0, 1, GpuType(1), 0.15, 0.15}};
  GavelGandiva rule(1);
  ASSERT_TRUE(rule.shares(problem).ok());
  ASSERT_TRUE(rule.shares(problem).ok());
  EXPECT_EQ(rule.remarks(), "1 pairs made at random, 0 dissolved as not worth it");
}

TEST(GavelEmulations, AreByName) {
  EXPECT_NE(make_gavel_emulation("gavel-fifo", 1), nullptr);
  EXPECT_NE(make_gavel_emulation("gandiva", 1), nullptr);
  EXPECT_EQ(make_gavel_emulation("allox", 1), nullptr);
}

// Two jobs, one GPU: the long one came first.
TEST(PolluxOptimus, TheFirstToComeHasTheGpu) {
  const Workload workload{"w", {policy::testing::rigid_job("a", 0, 1, 100), policy::testing::rigid_job("b", 0, 1, 10)}};
  const Fleet fleet = policy::testing::plain_fleet(1, 1);
  const policy::testing::PlainThroughput throughput;
  const auto changes = jobs::make_constant_changes({});
  const std::unique_ptr<Policy> policy = make_optimus_by_arrival();
  jobs::Setup setup;
  setup.workload = &workload;
  setup.fleet = &fleet;
  setup.throughput = &throughput;
  setup.policy = policy.get();
  setup.changes = changes.get();
  const auto outcome = run(setup);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->jobs[0].finish_s, 100);
  EXPECT_EQ(outcome->jobs[1].finish_s, 110);
}

}  // namespace
}  // namespace scalai::policy::validation
