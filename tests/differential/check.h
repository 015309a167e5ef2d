#pragma once
// What is asked of every case: a plan that the oracle and both interpreters accept, and, there and back again, the same
// data.

#include <cstdint>
#include <string>

#include "tests/differential/cases.h"

namespace scalai::differential {

struct Outcome {
  std::string wrong;  // "" = nothing
  int64_t transfers = 0;
  bool refused = false;     // the memory cap was too small, so that the one the planner named was tried
  bool infeasible = false;  // something is missing
};

// Plans the case and judges the plan.
Outcome check_case(DifferentialCase drawn);

// Plans from one collection to the other and back, and moves labelled data by the plans' operations: every device must
// end with exactly the data it began with.
Outcome check_round_trip(DifferentialCase drawn);

// The plan; with a memory cap too small, that for the smallest cap that the planner names, which becomes the case's.
absl::StatusOr<plan::Plan> plan_of(DifferentialCase& drawn, Outcome& outcome);

}  // namespace scalai::differential
