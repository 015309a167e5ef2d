#include "labs/bounds/io_bound.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "labs/bounds/known_graphs.h"
#include "labs/bounds/testing/pebbling.h"
#include "ptc/base/status.h"

namespace scalai::bounds {
namespace {

// Exhaustive, for every size of fast memory.
TEST(IoBound, IsAtMostTheOptimum) {
  int compared = 0, above = 0, better = 0;
  double ratio = 0;
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const ComputationGraph graph =
        testing::small_graph(7, 1 + static_cast<int64_t>(seed % 4), seed % 3 != 0, 1000 + seed);
    int64_t everything = 0;
    for (int32_t value = 0; value < graph.values(); ++value) everything += graph.size(value);
    for (int64_t capacity = 1; capacity <= everything; ++capacity) {
      for (const bool repeated : {false, true}) {
        const auto optimum = testing::least_transfers(graph, capacity, repeated);
        const auto bound = io_bound(graph, {.capacity = capacity, .repeated = repeated});
        ASSERT_TRUE(bound.ok()) << bound.status();
        if (!optimum) continue;
        ASSERT_LE(bound->transfers, *optimum) << "capacity " << capacity << (repeated ? ", repeated" : "");
        ++compared;
        if (*optimum == bound->compulsory) continue;
        ++above;
        ratio += static_cast<double>(bound->transfers) / static_cast<double>(*optimum);
        better += bound->transfers > bound->compulsory;
      }
    }
  }
  RecordProperty("compared", compared);
  // Of those whose optimum is more than loading inputs and storing results.
  RecordProperty("above", above);
  RecordProperty("mean_ratio", std::to_string(ratio / above));
  EXPECT_GT(compared, 1000);
  EXPECT_GT(above, 50);
  EXPECT_GT(better, 0) << "the other bounds say something";
}

// A spectrum of which nothing is proved, since all its eigenvalues are nearly equal: k = 1 counts, and it saves 2M.
TEST(IoBound, WithoutProvedEigenvaluesIsNotTooHigh) {
  ComputationGraph graph;
  std::vector<int32_t> order;
  int32_t first = -1;
  for (int i = 0; i < 1100; ++i) {
    const int32_t x = graph.input(10);
    if (i == 0) first = x;
    order.push_back(graph.result(10, std::vector<int32_t>{x}));
  }
  order.push_back(graph.result(10, std::vector<int32_t>{first}));
  const auto bound = io_bound(graph, {.capacity = 1'000'000, .repeated = true});
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->transfers, 0);
}

TEST(IoBound, AnyCapacityIsOne) {
  ComputationGraph graph = bellman_held_karp(6);
  for (const bool repeated : {false, true}) {
    const auto all = io_bound(graph, {.capacity = graph.total(), .repeated = repeated});
    const auto more = io_bound(graph, {.capacity = std::numeric_limits<int64_t>::max() / 2, .repeated = repeated});
    ASSERT_TRUE(all.ok() && more.ok());
    EXPECT_EQ(more->transfers, all->transfers);
    EXPECT_EQ(more->transfers, repeated ? 0 : graph.used_inputs() + graph.results());
  }
}

TEST(IoBound, NamesTheLargest) {
  ComputationGraph graph;
  const int32_t x = graph.input(10);
  graph.result(10, std::vector<int32_t>{x});
  const auto all = io_bound(graph, {.capacity = 100});
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->by, "compulsory");
  EXPECT_EQ(all->transfers, 20);
  const auto none = io_bound(graph, {.capacity = 100, .repeated = true});
  EXPECT_EQ(none->by, "none");
  EXPECT_EQ(none->transfers, 0);
  const auto spectral = io_bound(bellman_held_karp(9), {.capacity = 9});
  EXPECT_EQ(spectral->by, "spectral");
  EXPECT_EQ(spectral->transfers, spectral->spectral);
  EXPECT_GT(spectral->spectral, spectral->wavefront);
}

}  // namespace
}  // namespace scalai::bounds
