#include "labs/bounds/laplacian.h"

#include <gtest/gtest.h>

#include "labs/bounds/testing/pebbling.h"

namespace scalai::bounds {
namespace {

constexpr double kRounding = 1e-9;

double cut_weight(const WeightedGraph& graph, uint32_t segment) {
  double weight = 0;
  for (const Edge& edge : graph.edges) {
    if ((segment >> edge.a & 1) != (segment >> edge.b & 1)) weight += edge.weight;
  }
  return weight;
}

// What a segment stores for others or loads from others, straight from the definition.
int64_t transferred(const ComputationGraph& graph, uint32_t segment) {
  std::vector<int> vertex;
  int vertices = 0;
  for (int32_t value = 0; value < graph.values(); ++value)
    vertex.push_back(graph.role(value) == Role::kInput ? -1 : vertices++);
  int64_t sum = 0;
  for (int32_t value = 0; value < graph.values(); ++value) {
    const bool input = graph.role(value) == Role::kInput;
    int inside = 0, outside = 0;
    for (const int32_t user : graph.users(value))
      ++(segment >> vertex[static_cast<size_t>(user)] & 1 ? inside : outside);
    const bool made_here = !input && (segment >> vertex[static_cast<size_t>(value)] & 1);
    const bool shared = input ? inside > 0 && outside > 0 : made_here ? outside > 0 : inside > 0;
    if (shared) sum += graph.size(value);
  }
  return sum;
}

TEST(Laplacian, NoCutWeighsMoreThanItsSegmentTransfers) {
  int tight = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const ComputationGraph graph = testing::small_graph(9, 4, seed % 2 == 0, seed);
    for (const Expansion expansion : {Expansion::kStar, Expansion::kClique}) {
      const WeightedGraph weighted = expand(graph, expansion);
      ASSERT_EQ(weighted.vertices, graph.operations());
      for (uint32_t segment = 0; segment < uint32_t{1} << weighted.vertices; ++segment) {
        const double weight = cut_weight(weighted, segment);
        const auto most = static_cast<double>(transferred(graph, segment));
        ASSERT_LE(weight, most + kRounding) << "segment " << segment;
        tight += most > 0 && weight > most - kRounding;
      }
    }
  }
  EXPECT_GT(tight, 1000);
}

TEST(Laplacian, LargeSetsAreStars) {
  ComputationGraph graph;
  const int32_t x = graph.input(65 * 10), y = graph.computed(130, {});
  const int32_t both[] = {x, y};
  for (int i = 0; i < 65; ++i) graph.computed(1, both);
  const WeightedGraph weighted = expand(graph, Expansion::kClique);
  EXPECT_EQ(std::ssize(weighted.edges), 64 + 65);
  EXPECT_DOUBLE_EQ(weighted.edges.back().weight, 2);
}

TEST(Laplacian, ShareWeighsInputsAndResults) {
  ComputationGraph graph;
  const int32_t x = graph.input(8), y = graph.result(6, std::vector<int32_t>{x});
  graph.computed(1, std::vector<int32_t>{x, y});
  double sum = 0;
  for (const Edge& edge : expand(graph, Expansion::kStar, 0.5).edges) sum += edge.weight;
  EXPECT_DOUBLE_EQ(sum, 4 + 3);
}

}  // namespace
}  // namespace scalai::bounds
