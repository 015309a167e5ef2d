#include "ptc/base/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace scalai
