#include "labs/bounds/spectral.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "labs/bounds/eigenvalues.h"
#include "labs/bounds/known_graphs.h"
#include "labs/bounds/testing/pebbling.h"
#include "ptc/base/status.h"

namespace scalai::bounds {
namespace {

TEST(BestSum, IsTheFormulaForTheBestNumberOfSegments) {
  const Spectrum spectrum = {{0, 1, 2, 4}, 4};
  // 10 operations. k = 2: 5·1 − 2M; k = 3: 3·1 + 3·2 − 4M; k = 5: 2·(1 + 2 + 4 + 4) − 8M; k = 10: 1 + 2 + 7·4 + 4 − 18M
  EXPECT_NEAR(best_sum(spectrum, 10, {.capacity = 0}).transfers, 31, 1e-9);
  EXPECT_NEAR(best_sum(spectrum, 10, {.capacity = 1}).transfers, 22 - 8, 1e-9);
  EXPECT_EQ(best_sum(spectrum, 10, {.capacity = 1}).segments, 5);
  EXPECT_NEAR(best_sum(spectrum, 10, {.capacity = 2}).transfers, 22 - 16, 1e-9);
  EXPECT_EQ(best_sum(spectrum, 10, {.capacity = 100}).transfers, 0);
  EXPECT_NEAR(best_sum(spectrum, 10, {.capacity = 1, .repeated = true}).transfers, 22 - 10, 1e-9);
  EXPECT_NEAR(best_sum({{0, 1, 2, 4}, 0}, 10, {.capacity = 0}).transfers, 3 + 4 + 8,
              1e-9);  // nothing known of the rest
}

TEST(BestSum, OfSeveralProcessors) {
  const Spectrum spectrum = {{0, 1, 2, 4}, 0};
  EXPECT_NEAR(best_sum(spectrum, 12, {.capacity = 0, .processors = 3}).transfers, 0 + 1 + 2 + 4, 1e-9);
  const SpectralSum split = best_sum(spectrum, 12, {.capacity = 99, .processors = 4, .even_split = true});
  EXPECT_NEAR(split.transfers, 3 * 7, 1e-9);  // one segment each: the capacity does not matter
  EXPECT_EQ(split.segments, 1);
}

// Published form: floor(n/k)·Σλ/d − 2Mk with the largest out-degree d, from the closed-form spectrum. Ours is not
// below.
TEST(SpectralBound, OfButterfliesIsAtLeastThePublishedForm) {
  for (const int levels : {3, 5, 6}) {
    const ComputationGraph graph = butterfly(levels);
    const std::vector<double> spectrum = butterfly_spectrum(levels);
    for (const int64_t capacity : {0, 1, 2, 4}) {
      SCOPED_TRACE(::testing::Message() << levels << " levels, capacity " << capacity);
      double published = 0, sum = 0;
      for (int64_t k = 1; k <= std::min<int64_t>(kEigenvalues, graph.values()); ++k) {
        sum += spectrum[static_cast<size_t>(k - 1)] / 2;
        published = std::max(published,
                             static_cast<double>(graph.values() / k) * sum - 2.0 * static_cast<double>(capacity * k));
      }
      const auto star = spectral_bound(graph, {.capacity = capacity}, Expansion::kStar);
      ASSERT_TRUE(star.ok()) << star.status();
      EXPECT_GE(static_cast<double>(star->transfers), std::floor(published) - 1);
      EXPECT_GE(spectral_bound(graph, {.capacity = capacity})->transfers, star->transfers);
    }
  }
}

// Exhaustive: the optimum of the pebble game is never below.
TEST(SpectralBound, IsAtMostTheOptimum) {
  int compared = 0, positive = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const ComputationGraph graph = testing::small_graph(8, 1 + static_cast<int64_t>(seed % 3), seed % 4 != 0, seed);
    for (int64_t capacity = 1; capacity <= 10; ++capacity) {
      for (const bool repeated : {false, true}) {
        const auto optimum = testing::least_transfers(graph, capacity, repeated);
        if (!optimum) continue;
        for (const Expansion expansion : {Expansion::kStar, Expansion::kClique}) {
          const auto bound = spectral_bound(graph, {.capacity = capacity, .repeated = repeated}, expansion);
          ASSERT_TRUE(bound.ok()) << bound.status();
          ASSERT_LE(bound->transfers, *optimum) << "capacity " << capacity << (repeated ? ", repeated" : "");
          ++compared;
          positive += bound->transfers > 0;
        }
      }
    }
  }
  EXPECT_GT(compared, 500);
  EXPECT_GT(positive, 200);
}

// Of segments of an order, what they load and store if fast memory keeps nothing: the sum that eigenvalues bound.
int64_t shared(const ComputationGraph& graph, const std::vector<int>& segment_of) {
  int64_t sum = 0;
  for (int32_t value = 0; value < graph.values(); ++value) {
    uint32_t touched = uint32_t{1} << segment_of[static_cast<size_t>(value)];
    for (const int32_t user : graph.users(value)) touched |= uint32_t{1} << segment_of[static_cast<size_t>(user)];
    if (std::popcount(touched) > 1) sum += graph.size(value) * std::popcount(touched);
  }
  return sum;
}

// All assignments of the operations to p processors in equal numbers: without a limit of fast memory, what they
// exchange is the sum over those who make a value for others and those who fetch it.
TEST(SpectralBound, OfAnEvenSplitIsAtMostTheBestSplit) {
  int positive = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const int processors = 2 + static_cast<int>(seed % 2);
    const ComputationGraph graph = random_graph(9, 0.6, 4, seed);
    int64_t best = std::numeric_limits<int64_t>::max();
    std::vector<int> segment_of(9, 0);
    for (int64_t code = 0; code < std::pow(processors, 9); ++code) {
      std::vector<int> members(static_cast<size_t>(processors), 0);
      int64_t rest = code;
      for (int& one : segment_of)
        one = static_cast<int>(rest % processors), rest /= processors, ++members[static_cast<size_t>(one)];
      const auto [least, most] = std::minmax_element(members.begin(), members.end());
      if (*most - *least <= 1) best = std::min(best, shared(graph, segment_of));
    }
    const auto bound = spectral_bound(graph, {.capacity = 1000, .processors = processors, .even_split = true});
    ASSERT_TRUE(bound.ok());
    ASSERT_LE(bound->transfers, best);
    positive += bound->transfers > 0;
  }
  EXPECT_GT(positive, 30);
}

// Some processor of several: every assignment, every cut of its operations into segments in the order of their numbers.
TEST(SpectralBound, OfTheBusiestProcessorIsAtMostTheBestSplit) {
  int positive = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const ComputationGraph graph = random_graph(10, 0.7, 9, seed);
    const auto bound = spectral_bound(graph, {.capacity = 0, .processors = 2});
    ASSERT_TRUE(bound.ok());
    int64_t best = std::numeric_limits<int64_t>::max();
    for (uint32_t mine = 0; mine < 1024; ++mine) {
      if (std::popcount(mine) < 5) continue;  // the busier one
      // Without fast memory each operation is a segment: it loads its operands and stores its value if it has users.
      int64_t transfers = 0;
      for (int32_t value = 0; value < 10; ++value) {
        if (mine >> value & 1) transfers += std::ssize(graph.operands(value)) + (graph.users(value).empty() ? 0 : 1);
      }
      best = std::min(best, transfers);
    }
    ASSERT_LE(bound->transfers, best);
    positive += bound->transfers > 0;
  }
  EXPECT_GT(positive, 20);
}

TEST(SpectralBound, GrowsWithSizesAndFallsWithCapacity) {
  const ComputationGraph one = random_graph(50, 0.2, 4, 7);
  ComputationGraph thousand;
  for (int32_t value = 0; value < one.values(); ++value) thousand.computed(1000, one.operands(value));
  int64_t last = std::numeric_limits<int64_t>::max();
  for (const int64_t capacity : {0, 1, 2, 3, 5, 9}) {
    const auto small = spectral_bound(one, {.capacity = capacity}),
               large = spectral_bound(thousand, {.capacity = 1000 * capacity});
    ASSERT_TRUE(small.ok() && large.ok());
    EXPECT_LE(small->transfers, last);
    EXPECT_NEAR(static_cast<double>(large->transfers), 1000.0 * static_cast<double>(small->transfers), 1000);
    last = small->transfers;
  }
}

}  // namespace
}  // namespace scalai::bounds
