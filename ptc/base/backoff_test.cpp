#include "ptc/base/backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace scalai {
namespace {

TEST(BackoffPauses, DoubleUpToTheLongest) {
  const uint64_t seed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Backoff backoff(0.1, 1, seed);
  for (const double step : {0.1, 0.2, 0.4, 0.8, 1.0, 1.0}) {
    const double pause = backoff.next_s();
    EXPECT_GE(pause, step / 2);
    EXPECT_LE(pause, step);
  }
  EXPECT_LE(Backoff(3, 1, seed).next_s(), 1);
  EXPECT_EQ(Backoff(0, 0, seed).next_s(), 0);
}

TEST(BackoffPauses, DifferBetweenThoseThatFailedTogether) {
  std::set<double> first;
  for (uint64_t seed = 1; seed <= 20; ++seed) first.insert(Backoff(1, 1, seed).next_s());
  EXPECT_EQ(first.size(), 20U);
  EXPECT_EQ(Backoff(1, 1, 7).next_s(), Backoff(1, 1, 7).next_s());
}

}  // namespace
}  // namespace scalai
