#include "ptc/report/chart/axis.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ptc/base/random.h"

namespace scalai::report::chart {
namespace {

std::string text(const Ticks& ticks) {
  std::string result = ticks.title + ":";
  for (const Tick& tick : ticks.ticks) result += " " + tick.label;
  return result;
}

TEST(Ticks, TakeTheUnitOfTheRange) {
  // 538 min = 8.97 h: steps of 1 h would be 9 ticks, of which 5 are allowed; 2 h are not enough either (0 … 8), so 5 h.
  EXPECT_EQ(text(ticks_of({"time", Unit::kSeconds, "", 0, 32280}, 9)), "time, h: 0 2 4 6 8");
  EXPECT_EQ(text(ticks_of({"time", Unit::kSeconds, "", 0, 32280}, 10)), "time, h: 0 1 2 3 4 5 6 7 8");
  EXPECT_EQ(text(ticks_of({"pause", Unit::kSeconds, "", 0, 90}, 5)), "pause, s: 0 50");
  EXPECT_EQ(text(ticks_of({"pause", Unit::kSeconds, "", 0, 0.5}, 6)), "pause, ms: 0 100 200 300 400 500");
  EXPECT_EQ(text(ticks_of({"time", Unit::kSeconds, "", 0, 864000}, 6)), "time, d: 0 2 4 6 8 10");
  EXPECT_EQ(text(ticks_of({"state", Unit::kBytes, "", 0, 2.5e9}, 6)), "state, GB: 0 0.5 1 1.5 2 2.5");
  EXPECT_EQ(text(ticks_of({"bytes", Unit::kBytes, "", 0, 3}, 6)), "bytes, B: 0 1 2 3");
  EXPECT_EQ(text(ticks_of({"use", Unit::kPercent, "", 0, 1}, 6)), "use, %: 0 20 40 60 80 100");
}

TEST(Ticks, OfCountsAreWhole) {
  EXPECT_EQ(text(ticks_of({"GPUs", Unit::kCount, "GPUs", 0, 2}, 9)), "GPUs: 0 1 2");
  EXPECT_EQ(text(ticks_of({"throughput", Unit::kPlain, "samples/s", 0, 53.3}, 5)), "throughput, samples/s: 0 20 40");
  EXPECT_EQ(text(ticks_of({"GPU time", Unit::kPlain, "GPU-h", 0, 2.2e7}, 6)), "GPU time, million GPU-h: 0 5 10 15 20");
}

TEST(Ticks, BeginInsideTheRange) {
  EXPECT_EQ(text(ticks_of({"time", Unit::kSeconds, "", 130, 290}, 5)), "time, min: 3 4");
  EXPECT_EQ(text(ticks_of({"x", Unit::kPlain, "", -10, 10}, 5)), "x: -10 -5 0 5 10");
}

TEST(Ticks, AreFewRoundAndInside) {
  Random random(5);
  for (int i = 0; i < 2000; ++i) {
    const double low = random.uniform() * 100, high = low + std::pow(10, 8 * random.uniform() - 3);
    const int most = 2 + static_cast<int>(random.uniform() * 10);
    const Ticks ticks = ticks_of({"x", Unit::kPlain, "", low, high}, most);
    EXPECT_LE(ticks.ticks.size(), static_cast<size_t>(most)) << low << " " << high;
    for (const Tick& tick : ticks.ticks) {
      EXPECT_GE(tick.at, low * (1 - 1e-6) - 1e-6);
      EXPECT_LE(tick.at, high * (1 + 1e-6));
    }
  }
}

TEST(Rounded, EndsAtTicks) {
  const Axis axis = rounded({"y", Unit::kPercent, "", 0.943, 0.991}, 5);  // 4.8 % in at most 4 steps: of 2 %
  EXPECT_DOUBLE_EQ(axis.low, 0.94);
  EXPECT_DOUBLE_EQ(axis.high, 1);
  EXPECT_DOUBLE_EQ(rounded({"y", Unit::kPlain, "", 0, 53.3}, 5).high, 60);  // steps of 20
  EXPECT_DOUBLE_EQ(rounded({"y", Unit::kCount, "", 0, 16}, 5).high, 20);    // steps of 5
  EXPECT_DOUBLE_EQ(rounded({"y", Unit::kPlain, "", 0, 0}, 5).high, 1);
  EXPECT_DOUBLE_EQ(rounded({"y", Unit::kSeconds, "", 0, 7200}, 5).high, 7200);
}

TEST(Scale, IsLinearAndStopsAtTheEnds) {
  const Scale scale({"y", Unit::kPlain, "", 0, 10}, 100, 0);  // y grows upwards
  EXPECT_DOUBLE_EQ(scale(0), 100);
  EXPECT_DOUBLE_EQ(scale(2.5), 75);
  EXPECT_DOUBLE_EQ(scale(11), 0);
  EXPECT_DOUBLE_EQ(scale(-1), 100);
  EXPECT_DOUBLE_EQ(Scale({"y", Unit::kPlain, "", 3, 3}, 7, 9)(3), 7);
}

}  // namespace
}  // namespace scalai::report::chart
