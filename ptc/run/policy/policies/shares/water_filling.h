#pragma once
// Full max-min fairness (water filling): when the least served jobs cannot rise further, the others continue to rise,
// until every job is limited. With entities (tenants), fairness is between entities first (Gavel, OSDI'20, section
// 4.3). Pure function.

#include <map>
#include <string>

#include "ptc/run/policy/policies/shares/allocation.h"

namespace scalai::policy {

struct Hierarchy {
  bool entities = false;  // false: each job alone, with its own weight
  enum class Inside : uint8_t {
    kFairness,  // the entity's weight is divided among its rising jobs, by their weights
    kFifo,      // the first of them, by id, has the whole weight
  };
  Inside inside = Inside::kFairness;
  std::map<std::string, double> weights;  // of entities, > 0; 1 for entities not listed
};

// Raises all normalised throughputs thr_m(X) / thr_m(X^eq) in proportion to w_m / s_m, freezes the jobs that cannot
// rise by a relative 1e-5 with all others kept, and continues with the rest. objective = the first level (z of
// max_min_shares). Errors: those of Program::solve.
absl::StatusOr<Shares> water_filling_shares(const ShareProblem& problem, const Hierarchy& hierarchy);

}  // namespace scalai::policy
