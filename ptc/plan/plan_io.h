#pragma once
// Plans as protobuf (plan.proto: packed columns). Reading checks the schema version and the digest.

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ptc/plan/plan.h"

namespace scalai::plan {

std::string serialize(const Plan& plan);
// Errors (InvalidArgument): not a plan, another schema version (both named), columns of unequal length, a digest that
// does not match its content.
absl::StatusOr<Plan> parse_plan(std::string_view bytes);

}  // namespace scalai::plan
