#include "ptc/run/policy/policies/shares/water_filling.h"

#include <fmt/core.h>

#include "ptc/run/policy/policies/shares/program.h"
#include "ptc/run/policy/policies/shares/testing/support.h"

namespace scalai::policy {
namespace {

using testing::expect_allowed;
using testing::random_problem;

// The most that job m's normalised throughput can be while nobody with less or as much loses anything.
double most(const ShareProblem& problem, const std::vector<double>& level, size_t m) {
  Program program;
  const testing::Oracle rows(problem, 0);
  const std::vector<double> scale = normalisers(problem);
  for (size_t k = 0; k < rows.variables; ++k) program.column({scale[m] * rows.rates[m][k]});
  for (const testing::Row& row : rows.rows) {
    std::vector<Term> terms;
    for (size_t k = 0; k < row.a.size(); ++k) terms.push_back({static_cast<int>(k), row.a[k]});
    program.at_most(terms, row.b);
  }
  for (size_t n = 0; n < level.size(); ++n) {
    if (n != m && level[n] <= level[m] * (1 + 1e-4)) {
      std::vector<Term> terms;
      for (size_t k = 0; k < rows.variables; ++k) terms.push_back({static_cast<int>(k), scale[n] * rows.rates[n][k]});
      program.at_least(terms, level[n] * (1 - 1e-9));
    }
  }
  const auto solution = program.solve();
  EXPECT_TRUE(solution.ok()) << solution.status();
  return solution.ok() ? solution->objective : -1;
}

// Max-min fair to the end: nobody can have more without someone with less (or as much) having less still.
TEST(WaterFilling, NobodyCanRiseAtTheCostOfTheRicherOnly) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const ShareProblem problem =
        random_problem(random, static_cast<int>(random.between(1, 6)), 3, random.below(3) == 0);
    const auto shares = water_filling_shares(problem, {});
    ASSERT_TRUE(shares.ok()) << shares.status();
    expect_allowed(problem, *shares);
    const std::vector<double> scale = normalisers(problem);
    std::vector<double> level = throughputs(problem, *shares);
    for (size_t m = 0; m < level.size(); ++m) level[m] *= scale[m];
    const auto first = max_min_shares(problem);
    ASSERT_TRUE(first.ok());
    EXPECT_NEAR(shares->objective, first->objective, 1e-6 * (1 + first->objective));
    for (size_t m = 0; m < level.size(); ++m) {
      if (problem.jobs[m].runs()) {
        EXPECT_LE(most(problem, level, m), level[m] * (1 + 1e-3)) << "job " << m;
      }
    }
  }
}

// Many levels, one after the other: each program begins where the one before has ended.
TEST(WaterFilling, ManyJobsAreFilledToTheEnd) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const ShareProblem problem = random_problem(random, 100, 3, seed % 2 == 0);
    const auto shares = water_filling_shares(problem, {});
    ASSERT_TRUE(shares.ok()) << shares.status();
    expect_allowed(problem, *shares);
  }
}

ShareProblem one_gpu(const std::vector<std::string>& entities) {
  ShareProblem problem;
  problem.gpus = {1};
  for (const std::string& entity : entities) {
    ShareJob& job = problem.jobs.emplace_back();
    job.id = JobId(static_cast<int64_t>(problem.jobs.size()) - 1);
    job.rates = {3};
    job.entity = entity;
  }
  return problem;
}

TEST(WaterFilling, EntitiesDivideTheirWeight) {
  const ShareProblem problem = one_gpu({"a", "b", "b"});
  auto shares = water_filling_shares(problem, {.entities = true});
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_NEAR(shares->alone[0][0], 0.5, 1e-6);
  EXPECT_NEAR(shares->alone[1][0], 0.25, 1e-6);
  shares = water_filling_shares(problem, {.entities = true, .weights = {{"a", 2}}});
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_NEAR(shares->alone[0][0], 2.0 / 3, 1e-6);
  EXPECT_NEAR(shares->alone[2][0], 1.0 / 6, 1e-6);
  shares = water_filling_shares(problem, {.entities = true, .inside = Hierarchy::Inside::kFifo});
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_NEAR(shares->alone[1][0], 0.5, 1e-6);
  EXPECT_NEAR(shares->alone[2][0], 0, 1e-6);
}

TEST(WaterFilling, TheNextInTheQueueTakesWhatTheHeadCannot) {
  ShareProblem problem = one_gpu({"a", "b", "b"});
  problem.gpus = {2};  // the head of b can use one GPU only
  const auto shares =
      water_filling_shares(problem, {.entities = true, .inside = Hierarchy::Inside::kFifo, .weights = {{"b", 3}}});
  ASSERT_TRUE(shares.ok()) << shares.status();
  // a and b's head rise 1 : 3 until the head has a whole GPU; then a and b's second share the rest 1 : 3, a from a
  // third on.
  EXPECT_NEAR(shares->alone[1][0], 1, 1e-5);
  EXPECT_NEAR(shares->alone[0][0] + shares->alone[2][0], 1, 1e-5);
  EXPECT_NEAR(shares->alone[2][0], 0.75 * (1 - 1.0 / 3), 1e-3);
}

}  // namespace
}  // namespace scalai::policy
