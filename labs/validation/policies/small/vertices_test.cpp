#include "labs/validation/policies/small/vertices.h"

#include "gtest/gtest.h"
#include "ptc/base/random.h"

namespace scalai::policy::small {
namespace {

TEST(Vertices, ATriangleByHand) {
  SmallProgram program{.objective = {3, 2}, .rows = {}, .bounds = {}};
  program.at_most({1, 1}, 4);
  program.at_most({1, 3}, 6);
  program.at_most({1, 0}, 3);
  const auto best = best_corner(program);  // x = 3, y = 1
  ASSERT_TRUE(best.has_value());
  EXPECT_NEAR(best->value, 11, 1e-12);
  EXPECT_NEAR(best->x[0], 3, 1e-12);
  program.at_least({0, 1}, 5);
  EXPECT_FALSE(best_corner(program).has_value());
}

// No point that is drawn beats the corner, and the corner is allowed.
TEST(Vertices, NoRandomPointIsBetter) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SmallProgram program{.objective = {}, .rows = {}, .bounds = {}};
    for (int j = 0; j < 4; ++j) program.objective.push_back(random.uniform());
    for (int i = 0; i < 5; ++i) {
      std::vector<double> row;
      for (int j = 0; j < 4; ++j) row.push_back(0.1 + random.uniform());
      program.at_most(row, 1 + random.uniform());
    }
    const auto best = best_corner(program);
    ASSERT_TRUE(best.has_value());
    int allowed = 0;
    for (int draw = 0; draw < 20000; ++draw) {
      double value = 0;
      std::vector<double> x;
      for (int j = 0; j < 4; ++j) x.push_back(random.uniform() * 2);
      bool ok = true;
      for (size_t i = 0; i < program.rows.size(); ++i) {
        double sum = 0;
        for (size_t j = 0; j < 4; ++j) sum += program.rows[i][j] * x[j];
        ok = ok && sum <= program.bounds[i];
      }
      for (size_t j = 0; j < 4; ++j) value += program.objective[j] * x[j];
      allowed += ok ? 1 : 0;
      if (ok) {
        EXPECT_LE(value, best->value + 1e-12);
      }
    }
    EXPECT_GT(allowed, 0);
  }
}

}  // namespace
}  // namespace scalai::policy::small
