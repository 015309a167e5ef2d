#pragma once
// The place (naming_state.h) that has all of every tensor.

#include <span>

#include "absl/status/statusor.h"
#include "ptc/store/naming/internal/naming_state.h"

namespace scalai::store::internal {

// InvalidArgument: a state twice, or not of the shape that the family gives it.
absl::StatusOr<Place> whole_place(const Naming::State& naming, std::span<const LogicalState> states);

}  // namespace scalai::store::internal
