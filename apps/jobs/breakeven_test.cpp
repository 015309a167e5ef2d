#include "apps/jobs/breakeven.h"

#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

TEST(BreakevenSearch, FindsTheCrossing) {
  const auto result = find_breakeven(0, 3600, 0.5, [](double x) -> absl::StatusOr<BreakevenSample> {
    return BreakevenSample{x, 1000 + 2 * x, 1700 + x};
  });
  ASSERT_TRUE(result.ok());
  ASSERT_TRUE(result->bracket.has_value());
  EXPECT_LE(result->bracket->first, 700);
  EXPECT_GE(result->bracket->second, 700);
  EXPECT_LE(result->bracket->second - result->bracket->first, 0.5);
  for (size_t i = 1; i < result->samples.size(); ++i) EXPECT_LT(result->samples[i - 1].x, result->samples[i].x);
}

TEST(BreakevenSearch, SaysWhenThereIsNone) {
  const auto result = find_breakeven(0, 10, 1, [](double x) -> absl::StatusOr<BreakevenSample> {
    return BreakevenSample{x, x, x + 1};
  });
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->bracket.has_value());
  EXPECT_EQ(result->samples.size(), 9u);
}

TEST(BreakevenSearch, LooksBetweenTheEnds) {
  // b is better only around the middle.
  const auto result = find_breakeven(0, 8, 0.25, [](double x) -> absl::StatusOr<BreakevenSample> {
    return BreakevenSample{x, 1, 1 + (x - 3.6) * (x - 4.6)};
  });
  ASSERT_TRUE(result.ok() && result->bracket);
  EXPECT_LE(result->bracket->first, 3.6);
  EXPECT_GE(result->bracket->second, 3.6);
}

TEST(BreakevenSearch, EqualityIsAnAnswer) {
  const auto at = [](double x) -> absl::StatusOr<BreakevenSample> { return BreakevenSample{x, 5, 5}; };
  const auto result = find_breakeven(0, 10, 1, at);
  ASSERT_TRUE(result.ok() && result->bracket);
  EXPECT_EQ(result->bracket->first, result->bracket->second);
}

// The crossing at 3.6 lies between 3 and 4; nothing but whole numbers is asked for.
TEST(BreakevenSearch, WholeNumbers) {
  const auto result = find_breakeven(
      0, 100, 1,
      [](double x) -> absl::StatusOr<BreakevenSample> {
        EXPECT_EQ(x, static_cast<int>(x));
        return BreakevenSample{x, x, 3.6};
      },
      true);
  ASSERT_TRUE(result.ok() && result->bracket);
  EXPECT_EQ(*result->bracket, std::pair(3.0, 4.0));
}

// Narrower than numbers are apart: the neighbours are the answer.
TEST(BreakevenSearch, StopsWhereNoNumberIsBetween) {
  int asked = 0;
  const auto at = [&](double x) -> absl::StatusOr<BreakevenSample> {
    if (++asked > 1000) return failed("it goes on for ever");
    return BreakevenSample{x, x, 1000.3};
  };
  const auto result = find_breakeven(0, 3600, 1e-15, at);
  ASSERT_TRUE(result.ok() && result->bracket) << result.status();
  EXPECT_LE(result->bracket->first, 1000.3);
  EXPECT_GE(result->bracket->second, 1000.3);
}

TEST(BreakevenSearch, KnowsOfWhatMoreIsBetter) {
  for (const char* more :
       {"utilization", "/metrics/utilization", "/jobs/0/goodput_samples_per_s", "/jobs/0/steps", "/metrics/ettr"}) {
    EXPECT_TRUE(more_is_better(more)) << more;
  }
  for (const char* less : {"avg_jct_s", "/metrics/avg_jct_s", "/jobs/0/downtime_s", "unfinished", "/steps/0"}) {
    EXPECT_FALSE(more_is_better(less)) << less;
  }
}

TEST(BreakevenSearch, PassesErrorsOn) {
  const auto at = [](double) -> absl::StatusOr<BreakevenSample> { return failed("no"); };
  EXPECT_EQ(message_of(find_breakeven(0, 1, 0.1, at).status()), "no");
}

}  // namespace
}  // namespace scalai::apps
