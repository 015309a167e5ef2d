#pragma once
// The oracle: runs a plan on symbolic labels and checks that the result is the new collection. It proves that
//   - every element of every new box is present exactly once;
//   - each operation reads from a place that holds the box in the old epoch, or received or derived it before;
//   - class and byte count of each operation are true;
//   - nothing is freed too early, twice, or never;
//   - no device uses more memory than the plan states.
// Shares no code with the planner: it derives the content of ranks from the collections alone. Pure functions; any
// thread may call.

#include <cstdint>

#include "absl/status/status.h"
#include "ptc/cluster/cluster.h"
#include "ptc/plan/plan.h"
#include "ptc/state/collection/collection.h"

namespace scalai::plan {

// References to the inputs of the plan; they outlive the call.
struct InterpreterInput {
  const collection::Collection& from;
  const collection::Collection& to;
  const cluster::Cluster& cluster;
  const collection::Residency& residency;
};

// Up to `most_operations` operations, every tensor is checked one by one. In a larger plan, tensors with equal boxes on
// both sides, patterns and rounds are checked once as a group; every instance, pattern and leg is still checked, and so
// is the equality. Then `devices` devices, drawn from `seed`, are checked alone with every tensor.
struct InterpreterOptions {
  int64_t most_operations = int64_t{1} << 20;
  int devices = 64;
  uint64_t seed = 20260521;
};

// Extent of the check.
struct InterpreterReport {
  int64_t operations = 0;  // operations of the plan
  int64_t tensors = 0;     // tensors checked one by one, with all their operations
  int64_t devices = 0;     // devices checked alone, with all tensors
  bool all = false;        // every tensor was checked one by one, so no device alone
};

// OK, or InvalidArgument with the first problems: at most 20, one a line, each naming operation, tensor and box. Works
// on boxes, so the size of tensors does not matter: seconds for 16,384 devices. `report`, unless null, receives the
// extent of the check.
absl::Status interpret(const Plan& plan, const InterpreterInput& input, const InterpreterOptions& options = {},
                       InterpreterReport* report = nullptr);

// The same on single elements: every element has the label (tensor, flat index) and moves by itself. The ground truth
// of the property tests, for small tensors. CHECK: at most 2^20 elements in all.
absl::Status interpret_elements(const Plan& plan, const InterpreterInput& input);

}  // namespace scalai::plan
