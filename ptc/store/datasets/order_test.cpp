#include "ptc/store/datasets/order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "ptc/base/random.h"

namespace scalai::datasets {
namespace {

using testing::ElementsAre;

std::vector<int64_t> whole(const Order& order, int64_t pass) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < order.samples(); ++i) samples.push_back(order.at(pass, i));
  return samples;
}

TEST(Order, WithoutShuffleIsTheIdentity) {
  const Order order(5, /*shuffle=*/false, 99);
  EXPECT_THAT(whole(order, 0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(whole(order, 7), whole(order, 0));
  EXPECT_EQ(order.position_of(3, 4), 4);
}

// Reckoned by a program in another language from the definition in the header: another machine or compiler, or a change
// of ours, must not give another order, or jobs would read samples twice.
TEST(Order, GoldenValues) {
  EXPECT_THAT(whole(Order(10, true, 0), 0), ElementsAre(9, 1, 0, 7, 8, 2, 6, 4, 5, 3));
  EXPECT_THAT(whole(Order(10, true, 0), 1), ElementsAre(6, 8, 7, 0, 3, 9, 5, 1, 2, 4));
  EXPECT_THAT(whole(Order(10, true, 1), 0), ElementsAre(5, 3, 1, 9, 7, 2, 0, 6, 4, 8));
  EXPECT_THAT(whole(Order(1, true, 7), 3), ElementsAre(0));
  const Order billion(1'000'000'000, true, 42);
  std::vector<int64_t> found;
  for (const int64_t i : {0, 1, 2, 499'999'999, 999'999'999}) found.push_back(billion.at(2, i));
  EXPECT_THAT(found, ElementsAre(291722458, 460699580, 871013872, 277746693, 345926443));
  const int64_t most = int64_t{1} << 52;
  const Order largest(most, true, ~uint64_t{0});
  EXPECT_EQ(largest.at(most, 0), 1328474606322862);
  EXPECT_EQ(largest.at(most, most - 1), 516890210760435);
}

TEST(Order, IsAPermutationForEverySmallSize) {
  for (int64_t n = 1; n <= 2000; ++n) {
    const Order order(n, true, static_cast<uint64_t>(n) * 31);
    const int64_t pass = n % 5;
    std::vector<bool> seen(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      const int64_t sample = order.at(pass, i);
      ASSERT_TRUE(sample >= 0 && sample < n) << n;
      ASSERT_FALSE(seen[static_cast<size_t>(sample)]) << n << ": sample " << sample << " twice";
      seen[static_cast<size_t>(sample)] = true;
      ASSERT_EQ(order.position_of(pass, sample), i) << n;
    }
  }
}

TEST(Order, ABillionSamplesAreAPermutationWhereOneLooks) {
  Random random(5);
  for (const int64_t n : {int64_t{1'000'000'000}, (int64_t{1} << 30) + 1, int64_t{1} << 40, int64_t{999'999'999'989}}) {
    const Order order(n, true, random.next());
    std::set<int64_t> positions, samples;
    for (int k = 0; k < 5000; ++k) {
      const int64_t position = random.below(n);
      const int64_t sample = order.at(k % 3, position);
      ASSERT_TRUE(sample >= 0 && sample < n);
      ASSERT_EQ(order.position_of(k % 3, sample), position);
      if (k % 3 == 0 && positions.insert(position).second) {
        ASSERT_TRUE(samples.insert(sample).second);
      }
    }
  }
}

TEST(Order, SeedsPassesAndSizesGiveOtherOrders) {
  std::set<std::vector<int64_t>> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (int64_t pass = 0; pass < 20; ++pass) seen.insert(whole(Order(50, true, seed), pass));
  }
  EXPECT_EQ(seen.size(), 400u);
  // Seeds and passes are not exchanged for each other, and a size is no cut of another.
  EXPECT_NE(whole(Order(50, true, 3), 4), whole(Order(50, true, 4), 3));
  EXPECT_NE(Order(1000, true, 1).at(0, 0), Order(1001, true, 1).at(0, 0));
}

// χ² of counts that should be alike, in standard deviations from its mean.
double deviation(const std::vector<int64_t>& counts, double expected) {
  double chi2 = 0;
  for (const int64_t count : counts)
    chi2 += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected) / expected;
  const auto freedom = static_cast<double>(counts.size() - 1);
  return (chi2 - freedom) / std::sqrt(2 * freedom);
}

// Over many seeds each position gets each sample equally often, also in sizes where the network is tiny.
TEST(Order, EachSampleIsEquallyLikelyAtEachPosition) {
  constexpr int kSeeds = 20'000;
  for (const int64_t n : {2, 3, 4, 5, 7, 16, 17, 64, 100}) {
    const auto cells = static_cast<size_t>(n * n);
    std::vector<int64_t> counts(cells), passes(cells);
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      for (int64_t i = 0; i < n; ++i) {
        ++counts[static_cast<size_t>(i * n + Order(n, true, seed).at(0, i))];
        ++passes[static_cast<size_t>(i * n + Order(n, true, 1).at(static_cast<int64_t>(seed), i))];
      }
    }
    const double expected = static_cast<double>(kSeeds) / static_cast<double>(n);
    EXPECT_LT(std::abs(deviation(counts, expected)), 6) << n;
    EXPECT_LT(std::abs(deviation(passes, expected)), 6) << n;
  }
}

// All orders of a few samples come about equally often.
TEST(Order, TinySizesReachEveryOrder) {
  for (const auto& [n, orders] : std::map<int64_t, size_t>{{3, 6}, {4, 24}, {5, 120}, {6, 720}}) {
    std::map<std::vector<int64_t>, int64_t> found;
    for (uint64_t seed = 0; seed < 72'000; ++seed) ++found[whole(Order(n, true, seed), 0)];
    ASSERT_EQ(found.size(), orders) << n;
    std::vector<int64_t> counts;
    for (const auto& [order, count] : found) counts.push_back(count);
    EXPECT_LT(std::abs(deviation(counts, 72'000.0 / static_cast<double>(orders))), 6) << n;
  }
}

// A pass of many samples: steps from one sample to the next have no favourite size, no bit follows a bit of the
// position, fixed points and neighbours that stay neighbours are as rare as chance has them.
TEST(Order, HasNoStructure) {
  constexpr int64_t kSamples = 100'000;
  const Order order(kSamples, true, 11);
  const std::vector<int64_t> samples = whole(order, 1);
  std::vector<int64_t> steps(100), first_half(100);
  int64_t fixed = 0, neighbours = 0;
  for (size_t i = 0; i + 1 < samples.size(); ++i) {
    const int64_t step = (samples[i + 1] - samples[i] + kSamples) % kSamples;
    ++steps[static_cast<size_t>(step / (kSamples / 100))];
    if (i < samples.size() / 2) ++first_half[static_cast<size_t>(samples[i] / (kSamples / 100))];
    fixed += samples[i] == static_cast<int64_t>(i) ? 1 : 0;
    neighbours += step == 1 ? 1 : 0;
  }
  EXPECT_LT(std::abs(deviation(steps, kSamples / 100.0)), 6);
  EXPECT_LT(std::abs(deviation(first_half, kSamples / 200.0)), 6);
  EXPECT_LE(fixed, 8);       // 1 is expected; more than 8 has a chance of 1e-6
  EXPECT_LE(neighbours, 8);  // likewise
  for (int in = 0; in < 16; ++in) {
    for (int out = 0; out < 16; ++out) {
      int64_t alike = 0;
      for (size_t i = 0; i < 65'536; ++i) {
        alike += ((static_cast<int64_t>(i) >> in) & 1) == ((samples[i] >> out) & 1) ? 1 : 0;
      }
      // High bits are not quite even below 100,000, which shifts nothing against an even bit of the position.
      EXPECT_NEAR(static_cast<double>(alike), 32'768, 5 * 128) << in << " " << out;
    }
  }
}

TEST(OrderDeath, RefusesWhatLiesOutside) {
  EXPECT_EXIT(Order(0, true, 1), testing::ExitedWithCode(70), "samples_ > 0");
  EXPECT_EXIT(Order(5, true, 1).at(0, 5), testing::ExitedWithCode(70), "position < samples_");
  EXPECT_EXIT(Order(5, true, 1).position_of(-1, 0), testing::ExitedWithCode(70), "pass >= 0");
}

}  // namespace
}  // namespace scalai::datasets
