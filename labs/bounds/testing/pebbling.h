#pragma once
// Oracle: the least transfers of any execution of a small graph, by Dijkstra's algorithm over all states of the
// red-blue pebble game without recomputation. Shares no code with the bounds. For tests.

#include <cstdint>
#include <optional>

#include "labs/bounds/computation_graph.h"

namespace scalai::bounds::testing {

// nullopt: no execution fits. `repeated`: fast memory may hold inputs at the beginning and results at the end. CHECK:
// at most 10 values.
std::optional<int64_t> least_transfers(const ComputationGraph& graph, int64_t capacity, bool repeated);

// Graphs of all shapes that the tests use: random sizes up to `most_size`, roles if `roles`, at most two operands,
// sometimes an operation that has to come earlier.
ComputationGraph small_graph(int values, int64_t most_size, bool roles, uint64_t seed);

}  // namespace scalai::bounds::testing
