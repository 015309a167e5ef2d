#pragma once
// The allowed shares of allocation.h as rows and columns of a program.

#include <vector>

#include "ptc/run/policy/policies/shares/allocation.h"
#include "ptc/run/policy/policies/shares/program.h"

namespace scalai::policy::internal {

struct Polytope {
  Program program;
  std::vector<std::vector<int>> alone;   // column of X_mj; -1 = there is none
  std::vector<int> paired;               // column of each pair; of classes the time of all their pairs together
  std::vector<std::vector<Term>> rates;  // thr_m(X) by job; of a class, of each of its jobs
  std::vector<std::vector<Term>> times;  // time by job, likewise
  int time = -1;                         // column of T, where columns are y = X T
};

// Columns in job order, types inside, then the pairs. With `times`: y instead of X, and T is a column with lower bound
// 0.
Polytope polytope(const ShareProblem& problem, Program::Sense sense, bool times);

// Shares of a solution; y / T where there is a T. Values below 1e-9 are 0.
Shares shares_of(const ShareProblem& problem, const Polytope& polytope, const Solution& solution);

// So many pairs a pair of classes stands for.
double pairs_of(const ShareProblem& problem, const SharePair& pair);

// The second program of the tie-break: maximises the sum of weight_m thr_m(X) over all jobs from `start` on, all rows
// as they are.
absl::StatusOr<Shares> settle(const ShareProblem& problem, Polytope& polytope, const std::vector<double>& weights,
                              const Basis& start);

// A bound that keeps an optimum: loosened by what the solver's own tolerance may have added, relative.
inline constexpr double kSlack = 1e-9;
inline double kept(double optimum, double slack = kSlack) {
  return optimum - slack * (optimum < 0 ? -optimum : optimum);
}

}  // namespace scalai::policy::internal
