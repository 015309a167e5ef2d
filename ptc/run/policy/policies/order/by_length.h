#pragma once
// Orders that change only with the work done: FIFO (strict, backfill, with Gavel's packing), SJF, SRTF and SRSF.
// Functions without state.

#include <vector>

#include "ptc/run/policy/policies/catalogue.h"

namespace scalai::policy::order {

std::vector<PolicyInfo> length_policies();

// The parameter "types", common to all orders.
ParameterInfo types_parameter();

}  // namespace scalai::policy::order
