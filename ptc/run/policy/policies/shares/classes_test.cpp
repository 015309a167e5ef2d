#include "ptc/run/policy/policies/shares/classes.h"

#include <fmt/core.h>

#include "ptc/run/policy/policies/shares/testing/support.h"
#include "ptc/run/policy/policies/shares/water_filling.h"

namespace scalai::policy {
namespace {

using internal::classes_of;
using testing::expect_allowed;
using testing::random_problem;

// Some jobs of a few kinds, in random order; pairs go by the kinds.
ShareProblem repeated_problem(Random& random, bool packing) {
  const ShareProblem kinds = random_problem(random, static_cast<int>(random.between(1, 3)), 2, packing);
  ShareProblem problem{.gpus = kinds.gpus, .prices = kinds.prices, .jobs = {}, .pairs = {}};
  std::vector<int> kind_of;
  for (int64_t m = random.between(2, 8); m > 0; --m) {
    kind_of.push_back(static_cast<int>(random.below(static_cast<int64_t>(kinds.jobs.size()))));
    problem.jobs.push_back(kinds.jobs[static_cast<size_t>(kind_of.back())]);
    problem.jobs.back().id = JobId(static_cast<int64_t>(kind_of.size() - 1));
    problem.jobs.back().remaining = random.uniform();  // does not count
  }
  for (int64_t type = 0; packing && type < 2; ++type) {
    for (size_t a = 0; a < kind_of.size(); ++a) {
      for (size_t b = a + 1; b < kind_of.size(); ++b) {
        const ShareJob &first = problem.jobs[a], &second = problem.jobs[b];
        const auto j = static_cast<size_t>(type);
        if (first.gpus != second.gpus || first.rates[j] <= 0 || second.rates[j] <= 0) continue;
        const double part = 0.4 + 0.1 * (kind_of[a] + kind_of[b]);
        problem.pairs.push_back(
            {static_cast<int>(a), static_cast<int>(b), GpuType(type), first.rates[j] * part, second.rates[j] * part});
      }
    }
  }
  return problem;
}

// The optimum of all columns of all jobs.
double max_min_of_all(const ShareProblem& problem) {
  const testing::Oracle rows(problem, 1);
  const std::vector<double> scale = normalisers(problem);
  Program program;
  for (size_t k = 0; k < rows.variables; ++k) program.column({k + 1 == rows.variables ? 1.0 : 0.0});
  const auto terms_of = [](const std::vector<double>& row, double factor) {
    std::vector<Term> terms;
    for (size_t k = 0; k < row.size(); ++k) terms.push_back({static_cast<int>(k), factor * row[k]});
    return terms;
  };
  for (const testing::Row& row : rows.rows) program.at_most(terms_of(row.a, 1), row.b);
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    if (scale[m] <= 0) continue;
    std::vector<Term> terms = terms_of(rows.rates[m], scale[m]);
    terms.push_back({static_cast<int>(rows.variables) - 1, -1});
    program.at_least(terms, 0);
  }
  const auto solution = program.solve();
  EXPECT_TRUE(solution.ok()) << solution.status();
  return solution.ok() ? solution->objective : -1;
}

TEST(Classes, HaveTheOptimumOfTheirJobs) {
  int merged = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const ShareProblem problem = repeated_problem(random, seed % 2 == 0);
    if (!testing::all_run(problem)) continue;
    const auto shares = max_min_shares(problem);
    ASSERT_TRUE(shares.ok()) << shares.status();
    expect_allowed(problem, *shares);
    EXPECT_NEAR(shares->objective, max_min_of_all(problem), 1e-6 * shares->objective);
    const std::vector<double> scale = normalisers(problem), rates = throughputs(problem, *shares);
    for (size_t m = 0; m < rates.size(); ++m) EXPECT_GE(scale[m] * rates[m], shares->objective * (1 - 1e-6));
    const internal::Classes classes = classes_of(problem, false);
    merged += classes.problem.jobs.size() < problem.jobs.size() ? 1 : 0;
    for (size_t a = 0; a < rates.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (classes.of[a] == classes.of[b]) {
          EXPECT_NEAR(rates[a], rates[b], 1e-9 * rates[a]);
        }
      }
    }
  }
  EXPECT_GT(merged, 100);
}

TEST(Classes, OfOneTypeOfEverything) {
  ShareProblem problem;
  problem.gpus = {4};
  const ShareJob one{.id = JobId(0), .gpus = 2, .weight = 3, .rates = {5}};
  problem.jobs = {one, one, one};
  problem.jobs[2].entity = "other";
  EXPECT_EQ(classes_of(problem, false).problem.jobs.front().count, 3);
  EXPECT_EQ(classes_of(problem, true).of, (std::vector<int>{0, 0, 1}));
  problem.jobs[1].rates = {5 + 1e-15};
  EXPECT_EQ(classes_of(problem, false).of, (std::vector<int>{0, 1, 0}));
}

// A pair that is slower than others of its classes, or is not there: its jobs are not equal.
TEST(Classes, PairsMustBeAlike) {
  ShareProblem problem;
  problem.gpus = {4};
  const ShareJob one{.id = JobId(0), .rates = {5}};
  problem.jobs = {one, one, one};
  problem.pairs = {{0, 1, GpuType(0), 3, 3}, {0, 2, GpuType(0), 3, 3}, {1, 2, GpuType(0), 3, 3}};
  EXPECT_EQ(classes_of(problem, false).problem.jobs.size(), 1U);
  EXPECT_EQ(classes_of(problem, false).problem.pairs.size(), 1U);
  problem.pairs[2].second_rate = 2;
  EXPECT_EQ(classes_of(problem, false).problem.jobs.size(), 3U);
  problem.pairs.pop_back();
  EXPECT_EQ(classes_of(problem, false).pair_of, (std::vector<int>{0, 1}));
}

// Two entities, one with three equal jobs and one with one: half each, and a third of that.
TEST(Classes, EntitiesDivideTheirWeight) {
  ShareProblem problem;
  problem.gpus = {1};
  const ShareJob one{.id = JobId(0), .rates = {1}, .entity = "a"};
  problem.jobs = {one, one, one, one};
  problem.jobs[3].entity = "b";
  const auto shares = water_filling_shares(problem, {.entities = true, .inside = {}, .weights = {}});
  ASSERT_TRUE(shares.ok()) << shares.status();
  for (size_t m = 0; m < 3; ++m) EXPECT_NEAR(shares->alone[m][0], 1.0 / 6, 1e-6);
  EXPECT_NEAR(shares->alone[3][0], 0.5, 1e-6);
}

}  // namespace
}  // namespace scalai::policy
