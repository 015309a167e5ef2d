#include "ptc/base/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ptc/base/random.h"

namespace scalai {
namespace {

TEST(Statistics, OfNothingIsNothing) {
  EXPECT_EQ(median({}), std::nullopt);
  EXPECT_EQ(quantile({}, 0.5), std::nullopt);
  EXPECT_EQ(order_statistic({}, 0.5), std::nullopt);
}

TEST(Statistics, TheMedianIsInTheMiddle) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1}), 5);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({4, 9, 1, 2}), 3);
  EXPECT_EQ(median({9, 1, 5, 6}), 5.5);
}

TEST(Statistics, QuantilesInterpolate) {
  EXPECT_EQ(quantile({7}, 0.99), 7);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0), 1);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 1), 4);
  EXPECT_EQ(quantile({0, 10}, 0.25), 2.5);
}

TEST(Statistics, OrderStatisticsAreAmongTheValues) {
  EXPECT_EQ(order_statistic({4, 1, 3, 2}, 0.5), 3);
  EXPECT_EQ(order_statistic({4, 1, 3, 2}, 0.99), 4);
  EXPECT_EQ(order_statistic({4, 1, 3, 2}, 0.25), 2);
  EXPECT_EQ(order_statistic({5}, 0), 5);
}

// Of n values 0 … n − 1 every quantile is known.
TEST(Statistics, OfCountedValuesInAnyOrder) {
  Random random(7);
  for (int n = 1; n <= 40; ++n) {
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(i);
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
    EXPECT_EQ(median(values), (n - 1) / 2.0);
    for (int k = 0; k < n; ++k) {
      EXPECT_EQ(order_statistic(values, (k + 0.5) / n), k);
      if (n > 1) {
        EXPECT_NEAR(*quantile(values, static_cast<double>(k) / (n - 1)), k, 1e-12);
      }
    }
  }
}

// P(Binomial(n, 1/2) < k) summed in whole numbers, for small n.
double below(int n, int k) {
  double term = std::pow(0.5, n), sum = 0;
  for (int i = 0; i < k; ++i) {
    sum += term;
    term = term * (n - i) / (i + 1);
  }
  return sum;
}

TEST(Spread, IntervalsCoverAsTheySay) {
  EXPECT_EQ(spread_of({3}).median, 3);
  EXPECT_EQ(spread_of({4, 2}).median, 3);
  EXPECT_EQ(spread_of({4, 2}).low, 2);
  for (int n = 1; n <= 200; ++n) {
    std::vector<double> ranks;
    for (int i = 1; i <= n; ++i) ranks.push_back(n + 1 - i);
    const Spread spread = spread_of(ranks);
    const int k = static_cast<int>(spread.low);
    EXPECT_EQ(spread.high, n + 1 - k) << n;
    EXPECT_EQ(spread.median, (n + 1) / 2.0) << n;
    EXPECT_TRUE(n < 6 || below(n, k) <= 0.025) << n;
    EXPECT_TRUE(below(n, k + 1) > 0.025 || n < 6) << n << ": the next would do as well";
  }
  std::vector<double> many(5000, 1.0);
  EXPECT_EQ(spread_of(many).low, 1);
}

// The interval of uniform draws holds their true median about 95 times in a hundred.
TEST(Spread, CoverageOfRandomDraws) {
  const uint64_t seed = 20;
  SCOPED_TRACE(seed);
  Random random(seed);
  int held = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> draws;
    for (int i = 0; i < 25; ++i) draws.push_back(random.uniform());
    const Spread spread = spread_of(draws);
    held += spread.low <= 0.5 && 0.5 <= spread.high;
  }
  EXPECT_GE(held, 1870);
  EXPECT_LE(held, 1970);
}

}  // namespace
}  // namespace scalai
