// The objectives of allocation.h that objectives.cpp has.
#include <fmt/core.h>

#include "ptc/run/policy/policies/shares/allocation.h"
#include "ptc/run/policy/policies/shares/testing/support.h"

namespace scalai::policy {
namespace {

using testing::best_vertex;
using testing::expect_allowed;
using testing::Oracle;
using testing::small_problem;

TEST(Objectives, MakespanAgainstAllVertices) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const ShareProblem problem = small_problem(seed + 100);
    const auto shares = makespan_shares(problem);
    ASSERT_TRUE(shares.ok()) << shares.status();
    expect_allowed(problem, *shares);
    const std::vector<double> rates = throughputs(problem, *shares);
    Oracle oracle(problem, 1);
    for (size_t m = 0; m < problem.jobs.size(); ++m) {
      EXPECT_LE(problem.jobs[m].remaining / rates[m], shares->objective * (1 + 1e-6));
      oracle.add_need(m, problem.jobs[m].remaining);
    }
    const auto best = best_vertex(oracle.rows, oracle.last());
    ASSERT_TRUE(best.has_value());
    EXPECT_NEAR(shares->objective, 1 / *best, 1e-6 / *best);
  }
}

// The worst ratio is what it says, and no shares do better by a thousandth.
TEST(Objectives, FinishTimeAgainstAllVertices) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const ShareProblem problem = small_problem(seed + 200);
    const auto shares = finish_time_shares(problem);
    ASSERT_TRUE(shares.ok()) << shares.status();
    expect_allowed(problem, *shares);
    const std::vector<double> rates = throughputs(problem, *shares);
    const std::vector<double> isolated = throughputs(problem, isolated_shares(problem));
    double worst = 0;
    double above = 0;
    std::vector<double> fair;
    for (size_t m = 0; m < problem.jobs.size(); ++m) {
      const ShareJob& job = problem.jobs[m];
      fair.push_back(job.isolated_s + job.remaining / isolated[m]);
      worst = std::max(worst, (job.age_s + job.remaining / rates[m]) / fair[m]);
      above = std::max(above, job.age_s / fair[m]);
    }
    EXPECT_NEAR(worst, shares->objective, 1e-6 * worst);
    const double better = worst * 0.999;
    if (better <= above) continue;
    Oracle oracle(problem, 1);
    for (size_t m = 0; m < problem.jobs.size(); ++m) {
      oracle.add_need(m, problem.jobs[m].remaining / (better * fair[m] - problem.jobs[m].age_s));
    }
    EXPECT_LT(best_vertex(oracle.rows, oracle.last()).value_or(0), 1);
  }
}

TEST(Objectives, SumsAgainstAllVertices) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const ShareProblem problem = small_problem(seed + 300);
    const bool dollars = seed % 2 == 0;
    const auto shares = throughput_shares(problem, dollars ? Value::kThroughputPerDollar : Value::kThroughput, false);
    ASSERT_TRUE(shares.ok()) << shares.status();
    expect_allowed(problem, *shares);
    const Oracle oracle(problem, 0);
    std::vector<double> worth(oracle.variables);
    for (size_t m = 0; m < problem.jobs.size(); ++m) {
      for (size_t k = 0; k < oracle.variables; ++k) {
        const size_t singles = problem.jobs.size() * problem.gpus.size();
        const size_t type =
            k < singles ? k % problem.gpus.size() : static_cast<size_t>(problem.pairs[k - singles].type.value);
        worth[k] += oracle.rates[m][k] / (dollars ? problem.prices[type] : 1);
      }
    }
    const auto best = best_vertex(oracle.rows, worth);
    ASSERT_TRUE(best.has_value());
    EXPECT_NEAR(shares->objective, *best, 1e-6 * *best);
  }
}

TEST(Objectives, DeadlinesHoldOrAreDroppedTogether) {
  ShareProblem problem;
  problem.gpus = {1};
  problem.prices = {2};
  problem.jobs = {{.id = JobId(0), .rates = {10}, .remaining = 100},
                  {.id = JobId(1), .rates = {1}, .remaining = 50, .time_left_s = 100},
                  {.id = JobId(2), .rates = {1}, .remaining = 10, .time_left_s = -5}};  // too late: asks for nothing
  auto shares = throughput_shares(problem, Value::kThroughputPerDollar, true);
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_NEAR(shares->alone[1][0], 0.5, 1e-9);
  EXPECT_NEAR(shares->objective, (10 * 0.5 + 1 * 0.5) / 2, 1e-9);
  EXPECT_TRUE(shares->dropped.empty());

  problem.jobs[1].remaining = 200;  // 2 a second: impossible
  shares = throughput_shares(problem, Value::kThroughputPerDollar, true);
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_NEAR(shares->alone[0][0], 1, 1e-9);
  EXPECT_EQ(shares->dropped, std::vector<JobId>{JobId(1)});

  problem.prices = {0};
  EXPECT_TRUE(absl::IsInvalidArgument(throughput_shares(problem, Value::kThroughputPerDollar, true).status()));
  EXPECT_TRUE(throughput_shares(problem, Value::kThroughput, true).ok());
}

TEST(Objectives, JobsThatCannotRunHoldNobodyUp) {
  ShareProblem problem;
  problem.gpus = {2};
  problem.jobs = {{.id = JobId(0), .rates = {0}, .remaining = 5}, {.id = JobId(1), .rates = {2}, .remaining = 10}};
  for (const auto& shares : {max_min_shares(problem), makespan_shares(problem), finish_time_shares(problem),
                             throughput_shares(problem, Value::kThroughput, false)}) {
    ASSERT_TRUE(shares.ok()) << shares.status();
    EXPECT_EQ(shares->alone[0][0], 0);
    EXPECT_NEAR(shares->alone[1][0], 1, 1e-6);
  }
  problem.jobs.pop_back();
  for (const auto& shares : {max_min_shares(problem), makespan_shares(problem), finish_time_shares(problem),
                             throughput_shares(problem, Value::kThroughput, false)}) {
    ASSERT_TRUE(shares.ok()) << shares.status();
    EXPECT_EQ(shares->alone[0][0], 0);
  }
}

}  // namespace
}  // namespace scalai::policy
