#include "ptc/bounds/io_bound.h"

#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/bounds/known_graphs.h"
#include "ptc/bounds/testing/pebbling.h"

namespace scalai::bounds {
namespace {

// Exhaustive, for every size of fast memory.
TEST(IoBound, IsAtMostTheOptimum) {
  int compared = 0, met = 0;
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
        met += bound->transfers == *optimum;
      }
    }
  }
  RecordProperty("compared", compared);
  RecordProperty("met", met);
  EXPECT_GT(compared, 1000);
  EXPECT_GT(met, compared / 2);
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
