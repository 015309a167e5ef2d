#pragma once
// The oracle. Runs a plan on symbolic labels and says whether the result is the new collection: every element of every
// new box present exactly once, read from a place that really holds it in the old epoch, or received or derived it before,
// by an operation whose class and byte count are true; nothing given back too early, twice or never; and no device with
// more memory in use than the plan says. Shares no code with the planner: it derives what ranks hold from the collections
// alone.

#include <cstdint>

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

// In a plan of more operations, tensors that lie alike on both sides and go the same ways (same boxes, patterns and
// rounds) are looked at once. Every instance, pattern and leg is still checked, and so is that the tensors are alike. Some
// devices are then checked once more, alone and with every tensor; they are drawn from a fixed seed.
struct InterpreterOptions {
  int64_t most_operations = int64_t{1} << 20;
  int devices = 64;
  uint64_t seed = 20260521;
};

// What was looked at.
struct InterpreterReport {
  int64_t operations = 0;  // of the plan
  int64_t tensors = 0;     // one by one, with all their operations
  int64_t devices = 0;     // alone, with all tensors
  bool all = false;        // every tensor one by one, so that no device needed to be checked alone
};

// OK, or the first problems found (at most 20, one a line), each naming operation, tensor and box. Works on boxes, so it
// checks plans of any tensor size: seconds for 16,384 devices. `report`, unless null, gets what was looked at.
absl::Status interpret(const Plan& plan, const InterpreterInput& input, const InterpreterOptions& options = {},
                       InterpreterReport* report = nullptr);

// The same on single elements: every element of every tensor carries the label (tensor, flat index) and is moved one by
// one. For small tensors (CHECK: at most 2^20 elements in all); the ground truth of the property tests.
absl::Status interpret_elements(const Plan& plan, const InterpreterInput& input);

}  // namespace scalai::plan
