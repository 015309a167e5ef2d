#include "labs/bounds/wavefront.h"

#include <gtest/gtest.h>

#include "labs/bounds/testing/pebbling.h"

namespace scalai::bounds {
namespace {

// x_0 → x_1 → … → x_n, then gradients back: each needs the one behind it and its x.
ComputationGraph chain_and_back(int layers, int64_t size) {
  ComputationGraph graph;
  std::vector<int32_t> forward = {graph.computed(size, {})};
  for (int i = 0; i < layers; ++i) forward.push_back(graph.computed(size, std::vector<int32_t>{forward.back()}));
  int32_t gradient = graph.computed(size, std::vector<int32_t>{forward.back()});
  for (int i = layers - 1; i >= 0; --i)
    gradient = graph.computed(size, std::vector<int32_t>{gradient, forward[static_cast<size_t>(i)]});
  return graph;
}

TEST(WavefrontBound, OfAChainAndBackIsWhatIsLiveAtItsTurn) {
  // At x_8 nine values are live; three fit.
  const WavefrontBound bound =
      wavefront_bound(chain_and_back(8, 5), {.capacity = 15}, moments_of(chain_and_back(8, 5), 99));
  EXPECT_EQ(bound.transfers, 2 * (9 * 5 - 15));
  EXPECT_EQ(bound.moment, 8);
}

// An operation that makes two values: what is kept for later is made with what the next one uses.
TEST(WavefrontBound, CountsWhatHasToComeEarlier) {
  const auto live = [](bool together) {
    ComputationGraph graph;
    const int32_t x = graph.computed(1, {}), kept = graph.computed(10, std::vector<int32_t>{x});
    const std::vector<int32_t> after = together ? std::vector<int32_t>{kept} : std::vector<int32_t>{};
    const int32_t y = graph.computed(1, std::vector<int32_t>{x}, after);
    graph.computed(1, std::vector<int32_t>{y, kept});
    return wavefront_bound(graph, {.capacity = 2}, std::vector<int32_t>{y}).transfers;
  };
  EXPECT_EQ(live(false), 0);
  EXPECT_EQ(live(true), 2 * (1 + 10 - 2));
}

TEST(WavefrontBound, IsZeroIfAllFits) {
  const ComputationGraph graph = chain_and_back(4, 1);
  EXPECT_EQ(wavefront_bound(graph, {.capacity = 5}, moments_of(graph, 99)).transfers, 0);
  EXPECT_GT(wavefront_bound(graph, {.capacity = 4}, moments_of(graph, 99)).transfers, 0);
}

// Exhaustive: the optimum of the pebble game is never below, and often met.
TEST(WavefrontBound, IsAtMostTheOptimum) {
  int compared = 0, met = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const ComputationGraph graph = testing::small_graph(7, 1 + static_cast<int64_t>(seed % 3), seed % 4 != 0, seed);
    for (int64_t capacity = 1; capacity <= 12; ++capacity) {
      for (const bool repeated : {false, true}) {
        const auto optimum = testing::least_transfers(graph, capacity, repeated);
        if (!optimum) continue;
        const Machine machine = {.capacity = capacity, .repeated = repeated};
        const int64_t bound = wavefront_bound(graph, machine, moments_of(graph, 99)).transfers;
        ASSERT_LE(bound, *optimum) << "capacity " << capacity << (repeated ? ", repeated" : "");
        ++compared;
        met += bound > 0 && bound == *optimum;
      }
    }
  }
  EXPECT_GT(compared, 500);
  EXPECT_GE(met, 5);
}

// Exhaustive: for a chain and its way back the bound is the optimum, whatever fits.
TEST(WavefrontBound, OfAChainAndBackIsTheOptimum) {
  const ComputationGraph graph = chain_and_back(4, 3);
  for (int64_t capacity = 6; capacity <= 18; capacity += 3) {
    const auto optimum = testing::least_transfers(graph, capacity, false);
    ASSERT_TRUE(optimum.has_value());
    EXPECT_EQ(wavefront_bound(graph, {.capacity = capacity}, moments_of(graph, 99)).transfers, *optimum) << capacity;
  }
}

TEST(MomentsOf, AreOperationsAtEqualDistances) {
  ComputationGraph graph;
  const int32_t x = graph.input(1);
  for (int i = 0; i < 10; ++i) graph.computed(1, std::vector<int32_t>{x});
  EXPECT_EQ(moments_of(graph, 10).size(), 10u);
  EXPECT_EQ(moments_of(graph, 5), (std::vector<int32_t>{1, 3, 5, 7, 9}));
}

}  // namespace
}  // namespace scalai::bounds
