#include "labs/validation/policies/small/best_shares.h"

#include "gtest/gtest.h"

namespace scalai::policy::small {
namespace {

// Two jobs on one fast and one slow GPU; the second job is as slow on both.
ShareCase two_jobs() {
  return {.gpus = {1, 1}, .price = {}, .jobs = {{.rates = {3, 1}, .left = 300}, {.rates = {1, 1}, .left = 100}}};
}

TEST(BestShares, SumsAndLimits) {
  const ShareCase one = two_jobs();
  EXPECT_NEAR(*best_sum(one, false), 4, 1e-9);
  EXPECT_TRUE(allowed(one, {{1, 0}, {0, 1}}));
  EXPECT_FALSE(allowed(one, {{1, 0}, {0.1, 1}}));
  EXPECT_FALSE(allowed(one, {{0.6, 0}, {0.6, 0}}));
  EXPECT_DOUBLE_EQ(sum_of(one, {{1, 0}, {0, 1}}), 4);
  ShareCase due = one;
  due.jobs[0].due_s = 50;  // 6 a second: nobody has that
  EXPECT_FALSE(best_sum(due, true).has_value());
}

// Each job alone on its best GPU: rates 3 and 1, of 2 and 1 on an equal part.
TEST(BestShares, Fairness) {
  const ShareCase one = two_jobs();
  const std::vector<double> levels = fairest_levels(one);
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_NEAR(levels[0], 1, 1e-9);
  EXPECT_NEAR(levels[1], 1.5, 1e-9);
  // Isolated: half of each GPU, rates 2 and 1; the second job cannot be faster.
  EXPECT_NEAR(least_ratio(one), 1, 1e-6);
}

TEST(BestShares, EqualParts) {
  ShareCase one{.gpus = {2},
                .price = {},
                .jobs = {{.gpus = 2, .rates = {1}}, {.gpus = 1, .rates = {1}}, {.gpus = 1, .rates = {1}}}};
  EXPECT_DOUBLE_EQ(isolated(one)[0][0], 1.0 / 3);
  EXPECT_DOUBLE_EQ(isolated(one)[1][0], 2.0 / 3);
  EXPECT_DOUBLE_EQ(proportional(one)[0][0], 0.5);
}

}  // namespace
}  // namespace scalai::policy::small
