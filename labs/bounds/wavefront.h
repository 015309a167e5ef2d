#pragma once
// The wavefront bound of transfers: Elango, Rastello, Pouchet, Ramanujam, Sadayappan, "On characterizing the data
// movement complexity of computational DAGs for parallel execution", SPAA 2014, for values of any size, with inputs and
// results. Pure functions; any thread may call them. Model and words: computation_graph.h; one processor.
//
// At the moment at which value x has just been computed, let S be the operations done and T the others. S has all that
// x needs, T all that needs x, and S is closed under operands and `after`. What S made and T uses is live. At most M of
// it is in fast memory; the rest has been stored and will be loaded. So with the least weight of such a cut, by maximum
// flow,
//   transfers >= inputs + results + min over cuts (2·live computed + live results + inputs used in both S and T) − 2M.
// Repeated executions may begin and end with M units in fast memory. Then the largest of
//   min (2·live computed and results + inputs used in T) − 2M                         loads in T, stores in S
//   results + min (2·live computed + live results + inputs used in T) − 3M            and stores in T
//   inputs + results + min (as above) − 4M                                            and loads in S
// A chain of layers and its backward pass have their activations live at the loss, whatever the order.

#include <cstdint>
#include <span>
#include <vector>

#include "labs/bounds/computation_graph.h"
#include "labs/bounds/spectral.h"

namespace scalai::bounds {

struct WavefrontBound {
  int64_t transfers = 0;
  int32_t moment = -1;  // the value x; −1 if all bounds are 0
};

// The largest over the moments. CHECK: moments are operations of the graph, machine.processors is 1.
WavefrontBound wavefront_bound(const ComputationGraph& graph, const Machine& machine, std::span<const int32_t> moments);

// Operations to try: all, or so many at equal distances.
std::vector<int32_t> moments_of(const ComputationGraph& graph, int32_t most);

}  // namespace scalai::bounds
