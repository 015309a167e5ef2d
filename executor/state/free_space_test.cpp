#include "executor/state/free_space.h"

#include <gtest/gtest.h>

#include <vector>

#include "ptc/base/random.h"

namespace scalai::executor::state::internal {
namespace {
using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;

TEST(FreeSpace, TakesTheSmallestThatFits) {
  FreeSpace space;
  space.give(0, 10);
  space.give(20, 4);
  space.give(30, 6);
  EXPECT_EQ(space.bytes(), 20);
  EXPECT_EQ(space.largest(), 10);
  EXPECT_EQ(space.take(5), 30u);
  EXPECT_EQ(space.take(4), 20u);
  EXPECT_EQ(space.take(11), std::nullopt);
  EXPECT_EQ(space.take(1), 35u);
  EXPECT_EQ(space.take(10), 0u);
  EXPECT_EQ(space.bytes(), 0);
  EXPECT_EQ(space.largest(), 0);
  EXPECT_EQ(space.take(1), std::nullopt);
}

TEST(FreeSpace, NeighboursBecomeOne) {
  FreeSpace space;
  space.give(0, 2);
  space.give(4, 2);
  EXPECT_EQ(space.ranges(), 2u);
  space.give(2, 2);
  EXPECT_EQ(space.ranges(), 1u);
  EXPECT_EQ(space.take(6), 0u);
}

TEST(FreeSpaceDeathTest, NothingIsGivenTwice) {
  FreeSpace space;
  space.give(4, 4);
  EXPECT_EXIT(space.give(2, 3), testing::ExitedWithCode(70), "CHECK failed");
  EXPECT_EXIT(space.give(6, 1), testing::ExitedWithCode(70), "CHECK failed");
  EXPECT_EXIT(space.give(7, 3), testing::ExitedWithCode(70), "CHECK failed");
}

// Against a plain array of what is free.
TEST(FreeSpace, RandomTakesAndGives) {
  const uint64_t seed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  constexpr size_t kBytes = 400;
  std::vector<bool> free(kBytes, true);
  FreeSpace space;
  space.give(0, kBytes);
  Pairs taken;
  const auto smallest_fit = [&](int64_t bytes) {
    std::optional<uint64_t> best;
    int64_t best_length = 0;
    for (size_t i = 0; i < kBytes; ++i) {
      if (!free[i] || (i > 0 && free[i - 1])) continue;
      int64_t length = 0;
      while (i + static_cast<size_t>(length) < kBytes && free[i + static_cast<size_t>(length)]) ++length;
      if (length >= bytes && (!best || length < best_length)) best = i, best_length = length;
    }
    return best;
  };
  for (int step = 0; step < 4000; ++step) {
    if (random.below(2) == 0) {
      const int64_t bytes = random.between(1, 40);
      const std::optional<uint64_t> at = space.take(bytes);
      ASSERT_EQ(at, smallest_fit(bytes)) << step;
      if (!at) continue;
      for (uint64_t i = *at; i < *at + static_cast<uint64_t>(bytes); ++i) free[i] = false;
      taken.emplace_back(*at, bytes);
    } else if (!taken.empty()) {
      std::swap(taken[static_cast<size_t>(random.below(static_cast<int64_t>(taken.size())))], taken.back());
      const auto [at, bytes] = taken.back();
      taken.pop_back();
      space.give(at, static_cast<int64_t>(bytes));
      for (uint64_t i = at; i < at + bytes; ++i) free[i] = true;
    }
    int64_t all = 0;
    for (const bool is_free : free) all += is_free ? 1 : 0;
    ASSERT_EQ(space.bytes(), all) << step;
  }
}

TEST(Ranges, ReturnsWhatIsNew) {
  Ranges ranges;
  EXPECT_EQ(add_range(ranges, 10, 20), (Pairs{{10, 20}}));
  EXPECT_EQ(add_range(ranges, 12, 18), Pairs{});
  EXPECT_EQ(add_range(ranges, 20, 22), (Pairs{{20, 22}}));
  EXPECT_EQ(ranges.size(), 1u);
  EXPECT_EQ(add_range(ranges, 30, 40), (Pairs{{30, 40}}));
  EXPECT_EQ(add_range(ranges, 5, 50), (Pairs{{5, 10}, {22, 30}, {40, 50}}));
  EXPECT_EQ(ranges, (Ranges{{5, 50}}));
}

TEST(Ranges, RandomAgainstAnArray) {
  const uint64_t seed = 12;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    Ranges ranges;
    std::vector<bool> in(60, false);
    for (int step = 0; step < 12; ++step) {
      const auto begin = static_cast<uint64_t>(random.below(59));
      const auto end = begin + 1 + static_cast<uint64_t>(random.below(59 - static_cast<int64_t>(begin)));
      std::vector<bool> is_new(60, false);
      for (const auto& [from, to] : add_range(ranges, begin, end)) {
        for (uint64_t i = from; i < to; ++i) is_new[i] = true;
      }
      for (uint64_t i = 0; i < in.size(); ++i) {
        ASSERT_EQ(is_new[i], i >= begin && i < end && !in[i]) << i;
        if (i >= begin && i < end) in[i] = true;
      }
    }
    for (auto at = ranges.begin(); at != ranges.end(); ++at) {
      if (std::next(at) != ranges.end()) {
        ASSERT_LT(at->second, std::next(at)->first);
      }
    }
  }
}

}  // namespace
}  // namespace scalai::executor::state::internal
