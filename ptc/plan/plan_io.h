#pragma once
// Plans as protobuf bytes (plan.proto: packed columns). Pure functions; any thread may call.

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ptc/plan/plan.h"

namespace scalai::plan {

// The bytes of a plan. The digest, not these bytes, identifies the plan.
std::string serialize(const Plan& plan);
// Reads a plan; the result owns its data. InvalidArgument: not a plan, another schema version (the message has both),
// columns of unequal length, references to tensors, sets or patterns that do not exist, impossible shapes, boxes
// outside their tensors, more than 2^26 legs, or a digest that does not match the content.
absl::StatusOr<Plan> parse_plan(std::string_view bytes);

}  // namespace scalai::plan
