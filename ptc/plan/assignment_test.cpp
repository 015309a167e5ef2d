#include "ptc/plan/internal/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ptc/base/random.h"

namespace scalai::plan::internal {
namespace {

using Matrix = std::vector<std::vector<Gain>>;

Gain sum_of(const Matrix& gains, const std::vector<int>& columns) {
  Gain sum;
  for (size_t row = 0; row < columns.size(); ++row) sum += gains[row][static_cast<size_t>(columns[row])];
  return sum;
}

// The best of all ways, each column taking as many rows as its capacity; nothing where some pairs are forbidden and no
// way is left.
void visit(const ClassedGains& problem, const Matrix& gains, std::vector<int32_t>& room, size_t row, Gain sum,
           std::optional<Gain>& best) {
  if (row == gains.size()) {
    if (!best || *best < sum) best = sum;
    return;
  }
  for (size_t column = 0; column < room.size(); ++column) {
    if (room[column] == 0 || problem.gain(row, column) == ClassedGains::kForbidden) continue;
    --room[column];
    visit(problem, gains, room, row + 1, sum + gains[row][column], best);
    ++room[column];
  }
}

Matrix matrix_of(const ClassedGains& problem) {
  Matrix gains(problem.class_of_row.size(), std::vector<Gain>(problem.class_of_column.size()));
  for (size_t row = 0; row < gains.size(); ++row) {
    for (size_t column = 0; column < gains[row].size(); ++column) gains[row][column] = problem.gain(row, column);
  }
  for (const ClassedGains::More& more : problem.more)
    gains[static_cast<size_t>(more.row)][static_cast<size_t>(more.column)] += more.gain;
  return gains;
}

ClassedGains random_problem(Random& random, size_t rows, size_t columns, bool forbid) {
  const auto row_classes = static_cast<size_t>(random.between(1, 3)),
             column_classes = static_cast<size_t>(random.between(1, 3));
  ClassedGains problem;
  problem.gains.assign(row_classes, std::vector<Gain>(column_classes));
  for (auto& row : problem.gains) {
    for (Gain& gain : row) {
      gain = {random.below(5), random.below(3)};
      if (forbid && random.below(5) == 0) gain = ClassedGains::kForbidden;
    }
  }
  for (size_t row = 0; row < rows; ++row)
    problem.class_of_row.push_back(static_cast<int32_t>(random.below(static_cast<int64_t>(row_classes))));
  for (size_t column = 0; column < columns; ++column) {
    problem.class_of_column.push_back(static_cast<int32_t>(random.below(static_cast<int64_t>(column_classes))));
    problem.capacity.push_back(static_cast<int32_t>(random.below(3)));
  }
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      if (random.below(3) == 0)
        problem.more.push_back({static_cast<int32_t>(row), static_cast<int32_t>(column), {random.below(4), 0}});
    }
  }
  return problem;
}

// The sum, after checking that columns take no more than they may.
Gain checked_sum(const ClassedGains& problem, const std::vector<int32_t>& column_of) {
  std::vector<int32_t> room = problem.capacity;
  EXPECT_EQ(column_of.size(), problem.class_of_row.size());
  for (size_t row = 0; row < column_of.size(); ++row) {
    EXPECT_GE(--room[static_cast<size_t>(column_of[row])], 0);
    EXPECT_NE(problem.gain(row, static_cast<size_t>(column_of[row])), ClassedGains::kForbidden);
  }
  return sum_of(matrix_of(problem), std::vector<int>(column_of.begin(), column_of.end()));
}

TEST(BestAssignment, EqualsTheBestOfAllPermutations) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto rows = static_cast<size_t>(random.between(1, 5));
    const auto columns = rows + static_cast<size_t>(random.below(3));
    Matrix gains(rows, std::vector<Gain>(columns));
    for (auto& row : gains) {
      for (Gain& gain : row) gain = {random.below(6), random.below(6) - 3};
    }
    std::vector<int> order(columns);
    std::iota(order.begin(), order.end(), 0);
    Gain best{-1, 0};
    do {
      best = std::max(best, sum_of(gains, std::vector<int>(order.begin(), order.begin() + static_cast<long>(rows))));
    } while (std::next_permutation(order.begin(), order.end()));
    const std::vector<int> found = best_assignment(gains);
    EXPECT_EQ(sum_of(gains, found), best);
    EXPECT_EQ(std::set<int>(found.begin(), found.end()).size(), rows);
  }
}

TEST(ClassedAssignment, EqualsTheBestOfAllWays) {
  int fitting = 0, unfitting = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto rows = static_cast<size_t>(random.between(1, 5)), columns = static_cast<size_t>(random.between(1, 5));
    const ClassedGains problem = random_problem(random, rows, columns, random.below(2) == 0);
    std::optional<Gain> best;
    std::vector<int32_t> room = problem.capacity;
    visit(problem, matrix_of(problem), room, 0, {}, best);
    const auto found = best_assignment(problem);
    ASSERT_EQ(found.has_value(), best.has_value());
    ++(best ? fitting : unfitting);
    if (best) {
      EXPECT_EQ(checked_sum(problem, *found), *best);
    }
  }
  EXPECT_GT(fitting, 300);
  EXPECT_GT(unfitting, 300);
}

// The two algorithms on larger problems, where reassigning takes long paths through the classes.
TEST(ClassedAssignment, EqualsTheDenseAssignment) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto rows = static_cast<size_t>(random.between(20, 60));
    ClassedGains problem = random_problem(random, rows, rows + static_cast<size_t>(random.below(10)), false);
    std::fill(problem.capacity.begin(), problem.capacity.end(), 1);
    const auto found = best_assignment(problem);
    ASSERT_TRUE(found.has_value());
    const Matrix gains = matrix_of(problem);
    EXPECT_EQ(checked_sum(problem, *found), sum_of(gains, best_assignment(gains)));
  }
}

// More pairs of classes than are looked at exactly: still everybody gets a column, the first rows their best.
TEST(ClassedAssignment, GivesEveryRowAColumnWhereClassesAreTooMany) {
  const size_t rows = 600;
  ClassedGains problem;
  problem.gains.assign(rows, std::vector<Gain>(rows));
  for (size_t i = 0; i < rows; ++i) {
    problem.class_of_row.push_back(static_cast<int32_t>(i));
    problem.class_of_column.push_back(static_cast<int32_t>(i));
    problem.capacity.push_back(1);
    problem.gains[i][rows - 1 - i] = {7, 0};
    problem.more.push_back(
        {static_cast<int32_t>(i), static_cast<int32_t>(i == 0 ? 5 : rows - 1 - i), {i == 0 ? 9 : 1, 0}});
  }
  ASSERT_GT(rows * rows, kExactClassPairs);
  const auto found = best_assignment(problem);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->front(), 5) << "9 is more than 7";
  EXPECT_EQ((*found)[1], static_cast<int32_t>(rows) - 2);
  checked_sum(problem, *found);
  problem.capacity.assign(rows, 0);
  EXPECT_FALSE(best_assignment(problem).has_value());
}

}  // namespace
}  // namespace scalai::plan::internal
