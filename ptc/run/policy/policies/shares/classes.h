#pragma once
// Equal jobs as one: jobs with equal GPUs, weights and rates, alone and in every pair, may be exchanged in a program
// without changing what is allowed. The mean over all such exchanges of an optimum is an optimum, too (what is allowed
// is convex, and a concave objective is no worse at the mean), and it gives equal jobs equal shares. So a class of n
// equal jobs needs the columns and rows of one: exact, not an approximation. Pure functions.

#include <functional>
#include <vector>

#include "ptc/run/policy/policies/shares/allocation.h"

namespace scalai::policy::internal {

struct Classes {
  ShareProblem problem;      // a job with a count a class, in order of first members; a pair for each two classes
  std::vector<int> of;       // by job: its class
  std::vector<int> pair_of;  // by pair: the pair of its classes
};

// `by_entity`: only jobs of one entity are equal. Jobs are all classes of their own if the rates of pairs are not those
// of their classes.
Classes classes_of(const ShareProblem& problem, bool by_entity);

// Shares of the problem of classes for each job and pair.
Shares of_each(const Classes& classes, const Shares& shares);

// `solve` on classes, if there are equal jobs; errors are those of `solve`.
absl::StatusOr<Shares> solve_by_classes(const ShareProblem& problem, bool by_entity,
                                        const std::function<absl::StatusOr<Shares>(const ShareProblem&)>& solve);

}  // namespace scalai::policy::internal
