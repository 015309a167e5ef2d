#pragma once
// Orders that do not change but with the work done: FIFO (strict, backfill, with Gavel's packing), SJF, SRTF and SRSF.

#include <vector>

#include "ptc/sched/policies/catalogue.h"

namespace scalai::sched::order {

std::vector<PolicyInfo> length_policies();

// The parameter "types", which every order has.
ParameterInfo types_parameter();

}  // namespace scalai::sched::order
