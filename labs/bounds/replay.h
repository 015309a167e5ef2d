#pragma once
// The transfers of one order of evaluation: what a bound is compared with. Pure functions; any thread may call them.
//
// Model: computation_graph.h. The order is given; what leaves fast memory is chosen here: values that nobody uses
// again, then those whose next use is farthest (Belady, 1966). A value that lies in slow memory is forgotten for
// nothing, another one is stored first. With sizes that differ this is not the optimum for the order, but a schedule
// that can be run.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/bounds/computation_graph.h"

namespace scalai::bounds {

struct Transfers {
  int64_t loads = 0, stores = 0;
  int64_t sum() const { return loads + stores; }
};

// One execution: fast memory is empty before it, and results are stored at its end. `order` has each operation once,
// operands first (CHECK). Errors: InvalidArgument if an operation's operands do not fit, with the capacity that does.
absl::StatusOr<Transfers> replay(const ComputationGraph& graph, std::span<const int32_t> order, int64_t capacity);

// One execution within a sequence of equals. Result `second` of an execution is input `first` of the next one; both
// have one size, and somebody uses the input (CHECK). Fast memory keeps what the next execution uses. A carried result
// is stored only if it has to leave before that.
using Carried = std::pair<int32_t, int32_t>;
absl::StatusOr<Transfers> replay_repeated(const ComputationGraph& graph, std::span<const int32_t> order,
                                          int64_t capacity, std::span<const Carried> carried);

}  // namespace scalai::bounds
