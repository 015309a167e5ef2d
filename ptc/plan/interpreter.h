#pragma once
// The oracle. Runs a plan on symbolic labels and says whether the result is the new collection: every element of every
// new box present exactly once, read from a place that really holds it in the old epoch, by an operation whose class
// and byte count are true. Shares no code with the planner: it derives what ranks hold from the collections alone.

#include "absl/status/status.h"
#include "ptc/collection/collection.h"
#include "ptc/plan/cluster.h"
#include "ptc/plan/plan.h"

namespace scalai::plan {

struct InterpreterInput {
  const collection::Collection& from;
  const collection::Collection& to;
  const Cluster& cluster;
  const collection::Residency& residency;
};

// OK, or the first problems found (at most 20, one a line), each naming operation, tensor and box. Works on boxes, so it
// checks plans of any tensor size.
absl::Status interpret(const Plan& plan, const InterpreterInput& input);

// The same on single elements: every element of every tensor carries the label (tensor, flat index) and is moved one by
// one. For small tensors (CHECK: at most 2^20 elements in all); the ground truth of the property tests.
absl::Status interpret_elements(const Plan& plan, const InterpreterInput& input);

}  // namespace scalai::plan
