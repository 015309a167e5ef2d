#pragma once
// POP: a large allocation program split into k small ones (Narayanan et al., "Solving Large-Scale Granular Resource Allocation
// Problems Efficiently with POP", SOSP'21). Jobs go to k groups, each group has a k-th of every GPU type, rounded down, and is
// solved for itself; together the shares are allowed for the whole cluster. Near the optimum where jobs are many and small.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ptc/sched/policies/shares/allocation.h"

namespace scalai::sched {

struct PopOptions {
  int groups = 1;
  enum class Split : uint8_t {
    kModulo,  // group = job id mod k, as in the authors' artifact
    kRandom,  // groups of equal size, drawn with `seed`
  };
  Split split = Split::kModulo;
  uint64_t seed = 1;
};

struct PopPart {
  ShareProblem problem;
  std::vector<int> jobs;   // index in the whole problem
  std::vector<int> pairs;  // likewise
};

// The sub-problems. Error: InvalidArgument names the first job that could run before and fits on no type in its group.
absl::StatusOr<std::vector<PopPart>> split(const ShareProblem& problem, const PopOptions& options);

using ShareSolver = std::function<absl::StatusOr<Shares>(const ShareProblem&)>;

struct PopShares {
  Shares shares;                   // objective: the least of the parts; programs and pivots: of all
  std::vector<double> objectives;  // by part
  std::vector<int64_t> pivots;     // by part: the published run time is set-up plus the slowest part
};
absl::StatusOr<PopShares> pop_shares(const ShareProblem& problem, const PopOptions& options, const ShareSolver& solver);

}  // namespace scalai::sched
