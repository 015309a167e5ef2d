#include "labs/bounds/known_graphs.h"

#include <gtest/gtest.h>

#include <numeric>

namespace scalai::bounds {
namespace {

int64_t edges_of(const ComputationGraph& graph) {
  int64_t edges = 0;
  for (int32_t value = 0; value < graph.values(); ++value) edges += std::ssize(graph.operands(value));
  return edges;
}

TEST(KnownGraphs, HaveTheirSizes) {
  EXPECT_EQ(butterfly(3).values(), 4 * 8);
  EXPECT_EQ(edges_of(butterfly(3)), 3 * 8 * 2);
  EXPECT_EQ(bellman_held_karp(5).values(), 32);
  EXPECT_EQ(edges_of(bellman_held_karp(5)), 5 * 16);
  EXPECT_EQ(matrix_product(3).values(), 18 + 27 + 18);
  EXPECT_EQ(edges_of(matrix_product(3)), 2 * 27 + 2 * 18);
}

TEST(KnownGraphs, RandomOnesRepeatAndKeepTheirLimit) {
  const ComputationGraph a = random_graph(60, 0.2, 3, 5), b = random_graph(60, 0.2, 3, 5),
                         c = random_graph(60, 0.2, 3, 6);
  EXPECT_EQ(edges_of(a), edges_of(b));
  EXPECT_NE(edges_of(a), edges_of(c));
  for (int32_t value = 0; value < a.values(); ++value) EXPECT_LE(a.operands(value).size(), 3u);
  EXPECT_EQ(edges_of(random_graph(40, 1, 100, 1)), 40 * 39 / 2);
}

// The trace of a Laplacian is the sum of all degrees.
TEST(KnownGraphs, SpectraHaveTheNumberAndTheSumOfTheGraphs) {
  for (int size = 0; size <= 8; ++size) {
    SCOPED_TRACE(size);
    const std::vector<double> fft = butterfly_spectrum(size), cube = hypercube_spectrum(size);
    EXPECT_EQ(std::ssize(fft), butterfly(size).values());
    EXPECT_EQ(std::ssize(cube), bellman_held_karp(size).values());
    const auto sum = [](const std::vector<double>& all) { return std::accumulate(all.begin(), all.end(), 0.0); };
    EXPECT_NEAR(sum(fft), 2.0 * static_cast<double>(edges_of(butterfly(size))), 1e-8);
    EXPECT_NEAR(sum(cube), 2.0 * static_cast<double>(edges_of(bellman_held_karp(size))), 1e-8);
  }
}

}  // namespace
}  // namespace scalai::bounds
