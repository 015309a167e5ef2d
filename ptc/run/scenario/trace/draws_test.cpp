#include "ptc/run/scenario/trace/internal/draws.h"

#include <cmath>

#include "gtest/gtest.h"

namespace scalai::trace {
namespace {

struct Moments {
  double mean = 0, variance = 0;
};

template <class Draw>
Moments moments(int count, Draw draw) {
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const double value = draw();
    sum += value;
    squares += value * value;
  }
  const double mean = sum / count;
  return {mean, squares / count - mean * mean};
}

// 100,000 draws: the mean of one of deviation s lies within 4 s / 316 with a chance of 0.99994.
constexpr int kDraws = 100000;

TEST(Draws, ExponentialHasItsMeanAsDeviation) {
  Random random(7);
  const Moments seen = moments(kDraws, [&] { return exponential(random, 50); });
  EXPECT_NEAR(seen.mean, 50, 50 * 4 / 316.0);
  EXPECT_NEAR(std::sqrt(seen.variance), 50, 1.5);
}

TEST(Draws, WeibullHasTheMeanAndSpreadOfItsShape) {
  for (const double shape : {0.7, 1.0, 2.0}) {
    Random random(7);
    const Moments seen = moments(kDraws, [&] { return weibull(random, 50, shape); });
    const double g1 = std::tgamma(1 + 1 / shape), g2 = std::tgamma(1 + 2 / shape);
    const double deviation = 50 * std::sqrt(g2 / (g1 * g1) - 1);
    EXPECT_NEAR(seen.mean, 50, deviation * 4 / 316.0) << shape;
    EXPECT_NEAR(std::sqrt(seen.variance) / deviation, 1, 0.05) << shape;
  }
}

TEST(Draws, NormalIsStandard) {
  Random random(7);
  const Moments seen = moments(kDraws, [&] { return normal(random); });
  EXPECT_NEAR(seen.mean, 0, 4 / 316.0);
  EXPECT_NEAR(seen.variance, 1, 0.03);
}

TEST(Draws, TimesAreWholeMillisecondsAboveZero) {
  Random random(7);
  for (int i = 0; i < 1000; ++i) {
    const double value = exponential(random, 0.01);
    EXPECT_GT(value, 0);
    EXPECT_EQ(value, milliseconds(value));
  }
  EXPECT_EQ(milliseconds(1.0004), 1);
}

}  // namespace
}  // namespace scalai::trace
