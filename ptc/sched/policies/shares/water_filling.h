#pragma once
// Max-min fairness to the end (water filling): after the least served jobs can rise no further, the others go on rising, until
// every job is held back by something. With entities (tenants), fairness is between entities first (Gavel, OSDI'20, section 4.3).

#include <map>
#include <string>

#include "ptc/sched/policies/shares/allocation.h"

namespace scalai::sched {

struct Hierarchy {
  bool entities = false;  // off: every job for itself, with its own weight
  enum class Inside : uint8_t {
    kFairness,  // an entity's weight is divided among its jobs that still rise, by their weights
    kFifo,      // the first of them, by id, has it all
  };
  Inside inside = Inside::kFairness;
  std::map<std::string, double> weights;  // of entities; 1 for the others, > 0
};

// Rises all normalised throughputs thr_m(X) / thr_m(X^eq) in proportion to w_m / s_m, freezes the jobs that cannot rise by a
// relative 1e-5 with all others kept, and goes on with the rest. objective = the first level (max-min's z).
absl::StatusOr<Shares> water_filling_shares(const ShareProblem& problem, const Hierarchy& hierarchy);

}  // namespace scalai::sched
