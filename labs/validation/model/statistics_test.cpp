#include "labs/validation/model/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace scalai::step::validation {
namespace {

using ::testing::DoubleNear;
using ::testing::Optional;

TEST(Statistics, SummaryOfThreeErrors) {
  const std::vector<double> errors = {0.02, -0.08, 0.03};
  const Summary summary = summarize(errors);
  EXPECT_EQ(summary.count, 3);
  EXPECT_NEAR(summary.mape, 0.13 / 3, 1e-15);
  EXPECT_NEAR(summary.largest, -0.08, 1e-15);  // with its sign
  EXPECT_NEAR(summary.bias, -0.01, 1e-15);
}

TEST(Statistics, SummaryOfNothing) {
  const Summary summary = summarize({});
  EXPECT_EQ(summary.count, 0);
  EXPECT_EQ(summary.mape, 0);
  EXPECT_EQ(summary.largest, 0);
  EXPECT_EQ(summary.bias, 0);
}

TEST(Statistics, TauOfTheSameAndTheReversedOrder) {
  const std::vector<double> up = {1, 2, 3, 4}, down = {9, 7, 5, 3};
  EXPECT_THAT(kendall_tau(up, up), Optional(DoubleNear(1, 1e-15)));
  EXPECT_THAT(kendall_tau(up, down), Optional(DoubleNear(-1, 1e-15)));
}

TEST(Statistics, TauOfOneExchange) {
  // 6 pairs, of which (2, 3) is discordant: (5 − 1)/6.
  const std::vector<double> a = {1, 2, 3, 4}, b = {1, 3, 2, 4};
  EXPECT_THAT(kendall_tau(a, b), Optional(DoubleNear(4.0 / 6, 1e-15)));
}

TEST(Statistics, TauWithTies) {
  // Pairs: a tells 5 apart (1 = 1 is tied), b tells 5 apart (7 = 7 is tied). Concordant 4, discordant 0: 4/√(5·5).
  const std::vector<double> a = {1, 1, 2, 3}, b = {5, 6, 7, 7};
  EXPECT_THAT(kendall_tau(a, b), Optional(DoubleNear(0.8, 1e-15)));
  // a tells all 3 apart, b only 2: 2/√(3·2).
  const std::vector<double> c = {1, 2, 3}, d = {1, 1, 2};
  EXPECT_THAT(kendall_tau(c, d), Optional(DoubleNear(2 / std::sqrt(6.0), 1e-15)));
}

TEST(Statistics, TauNeedsAnOrder) {
  const std::vector<double> one = {1}, flat = {2, 2, 2}, up = {1, 2, 3};
  EXPECT_EQ(kendall_tau(one, one), std::nullopt);
  EXPECT_EQ(kendall_tau(flat, up), std::nullopt);
  EXPECT_EQ(kendall_tau(up, flat), std::nullopt);
}

// Without ties tau is 1 − 2 · exchanges of neighbours that bubble sort needs / pairs.
TEST(Statistics, TauCountsExchanges) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int size = 2 + static_cast<int>(random() % 9);
    std::vector<double> order, values;
    for (int i = 0; i < size; ++i) order.push_back(i), values.push_back(i);
    std::shuffle(values.begin(), values.end(), random);
    std::vector<double> sorted = values;
    int exchanges = 0;
    for (int pass = 0; pass < size; ++pass) {
      for (size_t i = 0; i + 1 < sorted.size(); ++i) {
        if (sorted[i] > sorted[i + 1]) std::swap(sorted[i], sorted[i + 1]), ++exchanges;
      }
    }
    EXPECT_THAT(kendall_tau(order, values), Optional(DoubleNear(1 - 4.0 * exchanges / (size * (size - 1)), 1e-12)));
  }
}

TEST(Statistics, BestConstant) {
  // Utilisations 0.4, 0.5 and 0.5: at 0.5 the errors are −0.2, 0 and 0; at 0.4 they are 0, 0.25 and 0.25.
  const std::vector<double> three = {0.4, 0.5, 0.5};
  EXPECT_THAT(best_constant_mape(three), Optional(DoubleNear(0.2 / 3, 1e-12)));
  EXPECT_EQ(best_constant_mape(std::vector<double>{0.4}), std::nullopt);
}

TEST(Statistics, NoConstantIsBetterThanTheBest) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> share(0.1, 0.9);
  std::vector<double> utilisations;
  for (int i = 0; i < 9; ++i) utilisations.push_back(share(random));
  const double best = *best_constant_mape(utilisations);
  for (double constant = 0.05; constant < 1; constant += 0.001) {
    double mape = 0;
    for (const double one : utilisations) mape += std::abs(one / constant - 1) / 9;
    EXPECT_GE(mape, best - 1e-12) << constant;
  }
}

TEST(Statistics, OrderedPairsLeaveOutWhatIsAlike) {
  // 100 and 96 differ by 4 %; 50 differs from both; predicted the other way round only against 96.
  const std::vector<double> published = {100, 96, 50}, predicted = {90, 40, 45};
  const OrderedPairs pairs = ordered_pairs(published, predicted, 0.05);
  EXPECT_EQ(pairs.pairs, 2);
  EXPECT_EQ(pairs.reversed, 1);
  EXPECT_EQ(ordered_pairs(published, predicted, 0.03).pairs, 3);
}

TEST(Statistics, OrderedPairsCountOnePlaceAsReversed) {
  const std::vector<double> published = {2, 1}, predicted = {5, 5};
  EXPECT_EQ(ordered_pairs(published, predicted, 0.05).reversed, 1);
}

}  // namespace
}  // namespace scalai::step::validation
