#pragma once
// What the numbers of a plan from a file may be, so that nothing that is done with a plan overflows or takes memory
// beyond the size of the file: devices are the plan's own, rounds and hops as many as it can have, and all bytes
// together fit into 62 bits. A digest proves that a plan is undamaged, not that it is sane: anybody can compute one.
// Pure function.

#include "absl/status/status.h"
#include "ptc/plan/plan.h"

namespace scalai::plan::internal {

// Indices of tensors, sets and patterns, and the bounds of boxes, are in range already. Errors (InvalidArgument) name
// the field, and what it is.
absl::Status check_limits(const Plan& plan);

}  // namespace scalai::plan::internal
