#pragma once
// The undirected weighted graph whose Laplacian bounds transfers (spectral.h). Plain values and pure functions.
//
// Let e be the set of a value u and its users; of an input, which no operation makes, its users alone. Cut an execution
// into segments. A segment that has a part of e but not all of it transfers u: it made u for others (a store), or uses
// what others made (a load), unless u stays in fast memory at an end of the segment. So weights on pairs of e may be
// any that give each cut of e at most the size of u; then the cut edges of a segment weigh at most what it transfers:
//   star    size(u) / |users| between u and each user (Jain and Zaharia, SPAA 2020, theorem of the out-degrees)
//   clique  size(u) / floor(|e|² / 4) between any two of e: a parts b ways, a · (|e| − a) <= floor(|e|² / 4)
//           (the net model of Hadley, "Approximation techniques for hypergraph partitioning", 1995)
// One user: both are the same. Two users: the clique has one edge more. Of two expansions either may give the higher
// bound. Inputs are cliques in both; where they have too many users, stars around the first user.

#include <cstdint>
#include <vector>

#include "labs/bounds/computation_graph.h"

namespace scalai::bounds {

enum class Expansion : uint8_t { kStar, kClique };

struct Edge {
  int32_t a = 0, b = 0;
  double weight = 0;
};
// Vertices are the operations of the graph in its order, from 0.
struct WeightedGraph {
  int32_t vertices = 0;
  std::vector<Edge> edges;  // pairs may occur more than once; weights add up
};

// Larger sets are stars in both, so that the number of edges stays linear in the graph's.
inline constexpr int kMostOfClique = 64;

// Multiplies the weights of inputs and results by `share`.
WeightedGraph expand(const ComputationGraph& graph, Expansion expansion, double share = 1);

}  // namespace scalai::bounds
