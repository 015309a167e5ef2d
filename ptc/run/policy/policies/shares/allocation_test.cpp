#include "ptc/run/policy/policies/shares/allocation.h"

#include <fmt/core.h>

#include "ptc/run/policy/policies/shares/internal/polytope.h"
#include "ptc/run/policy/policies/shares/testing/support.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::policy {
namespace {

using testing::best_vertex;
using testing::expect_allowed;
using testing::Oracle;
using testing::random_problem;
using testing::small_problem;

double worst_normalised(const ShareProblem& problem, const Shares& shares) {
  const std::vector<double> rates = throughputs(problem, shares);
  const std::vector<double> scale = normalisers(problem);
  double worst = kNever;
  for (size_t m = 0; m < rates.size(); ++m) worst = std::min(worst, rates[m] * scale[m]);
  return worst;
}

TEST(Allocation, MaxMinAgainstAllVertices) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const ShareProblem problem = small_problem(seed);
    const auto shares = max_min_shares(problem);
    ASSERT_TRUE(shares.ok()) << shares.status();
    expect_allowed(problem, *shares);
    EXPECT_NEAR(worst_normalised(problem, *shares), shares->objective, 1e-6 * shares->objective);

    Oracle oracle(problem, 1);
    const std::vector<double> scale = normalisers(problem);
    for (size_t m = 0; m < problem.jobs.size(); ++m) oracle.add_need(m, 1 / scale[m]);
    const auto best = best_vertex(oracle.rows, oracle.last());
    ASSERT_TRUE(best.has_value());
    EXPECT_NEAR(shares->objective, *best, 1e-6 * *best);
  }
}

TEST(Allocation, MaxMinBreaksTiesByTheSum) {
  // One GPU of each type. Job 0 runs on type 0 only and cannot have more than it; job 1 can have all of type 1, which
  // nobody else wants, beyond the worst normalised throughput.
  ShareProblem problem;
  problem.gpus = {1, 1};
  problem.jobs = {
      {.id = JobId(0), .rates = {1, 0}}, {.id = JobId(1), .rates = {0, 1}}, {.id = JobId(2), .rates = {1, 0}}};
  const auto shares = max_min_shares(problem);
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_NEAR(shares->objective, 1, 1e-9);  // half of a type that is half of all: 0.5 / 0.5
  EXPECT_NEAR(shares->alone[1][1], 1, 1e-9);
  EXPECT_NEAR(shares->alone[0][0], 0.5, 1e-6);
}

TEST(Allocation, WeightsAndSizesCount) {
  ShareProblem problem;
  problem.gpus = {1};
  problem.jobs = {{.id = JobId(0), .weight = 1, .rates = {5}}, {.id = JobId(1), .weight = 3, .rates = {2}}};
  auto shares = max_min_shares(problem);
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_NEAR(shares->alone[0][0], 0.25, 1e-9);
  EXPECT_NEAR(shares->alone[1][0], 0.75, 1e-9);

  problem.gpus = {2};  // as many GPU-seconds for the job of two GPUs as for each of the others
  problem.jobs = {
      {.id = JobId(0), .gpus = 2, .rates = {5}}, {.id = JobId(1), .rates = {2}}, {.id = JobId(2), .rates = {2}}};
  shares = max_min_shares(problem);
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_NEAR(shares->alone[0][0], 1.0 / 3, 1e-9);
  EXPECT_NEAR(shares->alone[1][0], 2.0 / 3, 1e-9);
}

TEST(Allocation, SimpleSharesAreAllowed) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const ShareProblem problem = random_problem(random, static_cast<int>(random.between(1, 12)), 3, false);
    expect_allowed(problem, isolated_shares(problem));
    expect_allowed(problem, proportional_shares(problem));
  }
}

TEST(Allocation, ProblemOfJobsKnowsPairsThatSomeTypeCarries) {
  Fleet fleet;
  fleet.types = {{"a", 1.5}, {"b", 0}};
  fleet.hosts = {{GpuType(0), 2}, {GpuType(1), 1}};
  std::vector<Job> jobs = {testing::rigid_job("x", 0, 1, 10), testing::rigid_job("y", 0, 1, 20),
                           testing::rigid_job("z", 0, 2, 30)};
  const ShareProblem problem = share_problem(jobs, fleet, testing::PlainThroughput({2, 1}, 0.6), true);
  EXPECT_EQ(problem.gpus, (std::vector<int>{2, 1}));
  EXPECT_EQ(problem.prices[0], 1.5);
  EXPECT_EQ(problem.jobs[2].rates, (std::vector<double>{2, 0}));  // two GPUs of the second type are not there
  ASSERT_EQ(problem.pairs.size(), 2U);                            // x and y, on each type; z has no equal
  EXPECT_EQ(problem.pairs[1].type, GpuType(1));
  EXPECT_NEAR(problem.pairs[0].first_rate, 1.2, 1e-12);
  EXPECT_TRUE(share_problem(jobs, fleet, testing::PlainThroughput({2, 1}, 0), true).pairs.empty());
}

TEST(Polytope, ColumnsByJobThenTypeThenPairs) {
  Random random(3);
  const ShareProblem problem = random_problem(random, 3, 2, true);
  const internal::Polytope space = internal::polytope(problem, Program::Sense::kMaximise, true);
  int next = 0;
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    for (size_t j = 0; j < 2; ++j) {
      EXPECT_EQ(space.alone[m][j], problem.jobs[m].rates[j] > 0 ? next++ : -1);
    }
  }
  for (int column : space.paired) {
    EXPECT_EQ(column, next++);
  }
  EXPECT_EQ(space.time, next);
  EXPECT_EQ(space.program.rows(), 5);  // the time of three jobs, the GPUs of two types
}

}  // namespace
}  // namespace scalai::policy
