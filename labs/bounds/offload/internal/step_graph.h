#pragma once
// The computation graph of one stage's training step (offload.h). Pure function; any thread may call it.

#include <vector>

#include "labs/bounds/replay.h"
#include "ptc/cost/step/training.h"

namespace scalai::step::offload::internal {

struct StepGraph {
  bounds::ComputationGraph graph;
  std::vector<bounds::Carried> carried;  // state of this step and of the next
  std::vector<int32_t> order;            // of the schedule, updates at the end
  int64_t state_bytes = 0, activation_bytes = 0;
};

// With the first so many micro-batches of the step. CHECK: check_workload accepts the workload, the model has layers,
// 1 <= micro_batches.
StepGraph step_graph(const Workload& workload, int stage, int micro_batches);

}  // namespace scalai::step::offload::internal
