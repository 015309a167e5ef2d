#pragma once
// What a planner's input has to be before anything is planned. Pure function of its argument.

#include "absl/status/status.h"
#include "ptc/plan/planner.h"

namespace scalai::plan::internal {

// InvalidArgument, as make_plan says: other tensors, types that do not convert, devices and hosts outside the cluster.
absl::Status check_input(const PlannerInput& input);

}  // namespace scalai::plan::internal
