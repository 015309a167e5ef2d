#include "ptc/run/policy/policies/shares/program.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ptc/base/random.h"

namespace scalai::policy {
namespace {

using Sense = Program::Sense;

TEST(Program, SmallLinearProgram) {
  Program program;  // max 3x + 2y, x + y <= 4, x + 3y <= 9, x <= 3: (3, 1), 11
  const int x = program.column({3, 0, 3});
  const int y = program.column({2});
  const std::vector<Term> sum = {{x, 1}, {y, 1}};
  const std::vector<Term> weighted = {{x, 1}, {y, 1}, {y, 2}};  // y twice: 3y
  program.at_most(sum, 4);
  program.at_most(weighted, 9);
  const auto solution = program.solve();
  ASSERT_TRUE(solution.ok()) << solution.status();
  EXPECT_NEAR(solution->objective, 11, 1e-9);
  EXPECT_NEAR(solution->values[0], 3, 1e-9);
  EXPECT_NEAR(solution->values[1], 1, 1e-9);
  EXPECT_NEAR(solution->row_duals[0], 2, 1e-9);
  EXPECT_NEAR(solution->row_duals[1], 0, 1e-9);
  EXPECT_NEAR(solution->reduced_costs[0], 1, 1e-9);
}

TEST(Program, InfeasibleAndUnbounded) {
  Program program;
  const std::vector<Term> x = {{program.column({1}), 1}};
  EXPECT_TRUE(absl::IsOutOfRange(program.solve().status())) << program.solve().status();
  program.at_most(x, 1);
  program.at_least(x, 2);
  EXPECT_TRUE(infeasible(program.solve().status())) << program.solve().status();

  Program integer(Sense::kMinimise);
  const std::vector<Term> both = {{integer.binary(1), 2}, {integer.binary(1), 2}};
  integer.equal(both, 3);
  EXPECT_TRUE(infeasible(integer.solve().status())) << integer.solve().status();
}

// Optimal if and only if primal feasible, dual feasible and complementary: checked on the vertex CLP returns.
void expect_optimal(const Program& program, const std::vector<std::vector<double>>& rows,
                    const std::vector<double>& bounds, const std::vector<double>& objective) {
  const auto solution = program.solve();
  ASSERT_TRUE(solution.ok()) << solution.status();
  double dual_objective = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < objective.size(); ++j) sum += rows[i][j] * solution->values[j];
    EXPECT_LE(sum, bounds[i] + 1e-7);
    EXPECT_GE(solution->row_duals[i], -1e-7);
    EXPECT_NEAR(solution->row_duals[i] * (bounds[i] - sum), 0, 1e-6);
    dual_objective += solution->row_duals[i] * bounds[i];
  }
  for (size_t j = 0; j < objective.size(); ++j) {
    double price = 0;
    for (size_t i = 0; i < rows.size(); ++i) price += solution->row_duals[i] * rows[i][j];
    EXPECT_GE(solution->values[j], -1e-9);
    EXPECT_GE(price, objective[j] - 1e-7);
  }
  EXPECT_NEAR(solution->objective, dual_objective, 1e-6);
}

TEST(Program, RandomLinearProgramsAreOptimalByDuality) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto columns = static_cast<size_t>(random.between(1, 12));
    const auto rows = static_cast<size_t>(random.between(1, 10));
    Program program;
    std::vector<double> objective(columns);
    for (double& value : objective) {
      value = random.uniform() * 4 - 1;
      program.column({value});
    }
    std::vector<std::vector<double>> matrix(rows, std::vector<double>(columns));
    std::vector<double> bounds(rows);
    for (size_t i = 0; i < rows; ++i) {
      std::vector<Term> terms;
      for (size_t j = 0; j < columns; ++j) {
        matrix[i][j] = 0.05 + random.uniform();
        terms.push_back({static_cast<int>(j), matrix[i][j]});
      }
      bounds[i] = random.uniform() * 10;
      program.at_most(terms, bounds[i]);
    }
    expect_optimal(program, matrix, bounds, objective);
  }
}

TEST(Program, WarmStartFindsTheSameOptimum) {
  Random random(7);
  Program program;
  std::vector<Term> terms;
  for (int j = 0; j < 40; ++j) terms.push_back({program.column({random.uniform(), 0, 1}), 0.1 + random.uniform()});
  const int row = program.at_most(terms, 6);
  const auto cold = program.solve();
  ASSERT_TRUE(cold.ok());
  program.set_row_bounds(row, -kUnbounded, 6.05);
  const auto warm = program.solve(&cold->basis);
  const auto again = program.solve();
  ASSERT_TRUE(warm.ok() && again.ok());
  EXPECT_NEAR(warm->objective, again->objective, 1e-9);
  EXPECT_LE(warm->effort.pivots, again->effort.pivots);
  const Basis other = {{1}, {}};  // of another program: ignored
  EXPECT_TRUE(program.solve(&other).ok());
}

// Multiple choice under several knapsacks, as Sia's: against trying everything.
TEST(Program, IntegerProgramsAgainstEnumeration) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto jobs = static_cast<size_t>(random.between(1, 6));
    constexpr size_t kChoices = 3;
    const bool maximise = random.below(2) == 0;
    Program program(maximise ? Sense::kMaximise : Sense::kMinimise);
    std::vector<double> gain(jobs * kChoices);
    std::vector<double> weight(jobs * kChoices);
    std::vector<Term> knapsack;
    for (size_t m = 0; m < jobs; ++m) {
      std::vector<Term> one;
      for (size_t c = 0; c < kChoices; ++c) {
        gain[m * kChoices + c] = std::round(random.uniform() * 100) / 100 - (maximise ? 0 : 0.7);
        weight[m * kChoices + c] = static_cast<double>(random.between(1, 8));
        const int column = program.binary(gain[m * kChoices + c]);
        one.push_back({column, 1});
        knapsack.push_back({column, weight[m * kChoices + c]});
      }
      program.at_most(one, 1);
    }
    const auto capacity = static_cast<double>(random.between(1, 14));
    program.at_most(knapsack, capacity);

    double best = 0;
    auto states = static_cast<size_t>(std::pow(kChoices + 1, jobs));
    for (size_t state = 0; state < states; ++state) {
      double total = 0;
      double load = 0;
      size_t rest = state;
      for (size_t m = 0; m < jobs; ++m, rest /= kChoices + 1) {
        if (const size_t choice = rest % (kChoices + 1); choice < kChoices) {
          total += gain[m * kChoices + choice];
          load += weight[m * kChoices + choice];
        }
      }
      if (load <= capacity) best = maximise ? std::max(best, total) : std::min(best, total);
    }
    const auto solution = program.solve();
    ASSERT_TRUE(solution.ok()) << solution.status();
    EXPECT_NEAR(solution->objective, best, 1e-7);
    const auto again = program.solve();
    EXPECT_EQ(solution->values, again->values);
  }
}

TEST(Program, ProgramWithoutColumnsIsRefused) { EXPECT_TRUE(absl::IsInvalidArgument(Program().solve().status())); }

}  // namespace
}  // namespace scalai::policy
