#include "labs/bounds/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "labs/bounds/io_bound.h"
#include "labs/bounds/testing/pebbling.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::bounds {
namespace {

std::vector<int32_t> in_order(const ComputationGraph& graph) {
  std::vector<int32_t> order;
  for (int32_t value = 0; value < graph.values(); ++value) {
    if (graph.role(value) != Role::kInput) order.push_back(value);
  }
  return order;
}

TEST(Replay, CountsLoadsAndStores) {
  ComputationGraph graph;
  const int32_t a = graph.input(3), b = graph.input(4);
  const int32_t x = graph.computed(2, std::vector<int32_t>{a});
  const int32_t y = graph.computed(2, std::vector<int32_t>{b});
  graph.result(5, std::vector<int32_t>{x, y});
  const auto roomy = replay(graph, in_order(graph), 9);
  ASSERT_TRUE(roomy.ok());
  EXPECT_EQ(roomy->loads, 3 + 4);
  EXPECT_EQ(roomy->stores, 5);
  const auto tight = replay(graph, in_order(graph), 5);  // b and x do not fit together
  ASSERT_TRUE(tight.ok());
  EXPECT_EQ(tight->loads, 3 + 4 + 2);
  EXPECT_EQ(tight->stores, 2 + 5);
  EXPECT_EQ(message_of(replay(graph, in_order(graph), 4).status()),
            "an operation needs 5 units of fast memory, 4 are there");
}

TEST(Replay, IsNeverBelowTheOptimum) {
  int met = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const ComputationGraph graph = testing::small_graph(7, 1 + static_cast<int64_t>(seed % 3), seed % 3 != 0, seed);
    for (int64_t capacity = 1; capacity <= 12; ++capacity) {
      const auto played = replay(graph, in_order(graph), capacity);
      const auto optimum = testing::least_transfers(graph, capacity, false);
      if (!played.ok()) continue;
      ASSERT_TRUE(optimum.has_value());
      ASSERT_GE(played->sum(), *optimum) << "capacity " << capacity;
      met += played->sum() == *optimum;
    }
  }
  EXPECT_GT(met, 100);
}

// A step that reads weights and replaces them.
TEST(Replay, OfASequenceKeepsWhatTheNextExecutionUses) {
  ComputationGraph graph;
  const int32_t w = graph.input(10), v = graph.input(10);
  const int32_t x = graph.computed(1, std::vector<int32_t>{w}), y = graph.computed(1, std::vector<int32_t>{x, v});
  const std::vector<Carried> carried = {{w, graph.result(10, std::vector<int32_t>{w, y})},
                                        {v, graph.result(10, std::vector<int32_t>{v, y})}};
  const auto at = [&](int64_t capacity) { return replay_repeated(graph, in_order(graph), capacity, carried).value(); };
  EXPECT_EQ(at(22).sum(), 0);
  EXPECT_EQ(at(12).loads, 40);  // each once for the layer and once for its update
  EXPECT_EQ(at(12).stores, 20);
  EXPECT_GE(at(12).sum(), io_bound(graph, {.capacity = 12, .repeated = true})->transfers);
}

// The bound of an execution within a sequence is at most what the sequence does, for large graphs, too.
TEST(Replay, OfASequenceIsNeverBelowTheBound) {
  int positive = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    ComputationGraph graph;
    std::vector<int32_t> values;
    for (int i = 0; i < 6; ++i) values.push_back(graph.input(random.between(1, 20)));
    for (int i = 0; i < 60; ++i) {
      const std::vector<int32_t> operands = {values[static_cast<size_t>(random.below(std::ssize(values)))],
                                             values[static_cast<size_t>(random.below(std::ssize(values)))]};
      values.push_back(graph.computed(random.between(1, 20), operands));
    }
    std::vector<Carried> carried;
    for (int32_t input = 0; input < 6; ++input)
      carried.emplace_back(input, graph.result(graph.size(input), std::vector<int32_t>{input, values.back() - input}));
    for (int64_t capacity = graph.least_capacity(); capacity < 400; capacity += 17) {
      const auto played = replay_repeated(graph, in_order(graph), capacity, carried);
      const auto bound = io_bound(graph, {.capacity = capacity, .repeated = true});
      ASSERT_TRUE(played.ok() && bound.ok());
      ASSERT_LE(bound->transfers, played->sum()) << "capacity " << capacity << ", by " << bound->by;
      positive += bound->transfers > 0;
    }
  }
  EXPECT_GT(positive, 20);
}

}  // namespace
}  // namespace scalai::bounds
