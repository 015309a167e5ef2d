#pragma once
// Statistics of what a worker's devices hold, as messages: made where the elements lie, and taken apart by whoever
// asked. Pure functions; any thread.

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/backend.h"
#include "ptc/state/tensor/element_stats.h"

namespace scalai::proto {
class BoxStats;
}

namespace scalai::executor::worker {

// Of each box, on `threads` threads, the same digits on any number of them. Out of a GPU's memory each thread copies a
// chunk at a time to the host. Errors: those of Backend::copy.
absl::StatusOr<std::vector<tensor::ElementStats>> box_stats(device::Backend& backend,
                                                            std::span<const device::BoxHash> boxes, int threads);

// All but the box.
void set_stats(const tensor::ElementStats& stats, proto::BoxStats& out);
// InvalidArgument: a message of another release.
absl::StatusOr<tensor::ElementStats> stats_of(const proto::BoxStats& message);

}  // namespace scalai::executor::worker
