#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "labs/bounds/internal/max_flow.h"
#include "ptc/base/random.h"

namespace scalai::bounds::internal {
namespace {

// The least cut over all sets that have node 0 and not node n − 1.
int64_t least_cut(int nodes, const std::vector<std::array<int64_t, 3>>& edges) {
  int64_t least = MaxFlow::kUnlimited;
  for (uint32_t set = 0; set < uint32_t{1} << nodes; ++set) {
    if (!(set & 1) || set >> (nodes - 1) & 1) continue;
    int64_t cut = 0;
    for (const auto& [from, to, capacity] : edges) {
      if ((set >> from & 1) && !(set >> to & 1)) cut += capacity;
    }
    least = std::min(least, cut);
  }
  return least;
}

TEST(MaxFlow, IsTheLeastCut) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    const int nodes = static_cast<int>(random.between(2, 8));
    MaxFlow flow(nodes - 1);
    EXPECT_EQ(flow.add_node(), nodes - 1);
    std::vector<std::array<int64_t, 3>> edges;
    for (int64_t i = random.below(25); i > 0; --i) {
      const auto [from, to, capacity] =
          edges.emplace_back(std::array{random.below(nodes), random.below(nodes), random.between(0, 9)});
      flow.add_edge(static_cast<int32_t>(from), static_cast<int32_t>(to), capacity);
    }
    EXPECT_EQ(flow.run(0, nodes - 1), least_cut(nodes, edges));
  }
}

}  // namespace
}  // namespace scalai::bounds::internal
