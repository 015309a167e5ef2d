#pragma once
// Statistics of a step that workers made where its elements lie (LiveOptions::stats), of whole tensors:
//
//   a box, by the worker that holds it ─┐
//   …                                   ├─ added up in the order of the boxes ─► TensorStats
//   a box, by another worker ───────────┘
//
// Nothing of the state crosses the network. Pure functions; any thread.

#include <vector>

#include "absl/status/statusor.h"
#include "executor/live/live_run.h"
#include "ptc/store/views/checkpoint_stats.h"

namespace scalai::executor::live {

// Of these of step.checkpoint()->tensors(), in their order. A tensor that is cut between devices may have another last
// digit of its sums than store::stats_of() gives. Unavailable: nobody looked at a part, as after the loss of a
// host.
absl::StatusOr<std::vector<store::TensorStats>> stats_of_step(const LiveStep& step, const std::vector<size_t>& tensors);

}  // namespace scalai::executor::live
