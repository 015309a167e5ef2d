#pragma once
// POP: a large allocation program split into k small ones (Narayanan et al., "Solving Large-Scale Granular Resource
// Allocation Problems Efficiently with POP", SOSP'21). Jobs go to k groups. Each group has a k-th of every GPU type,
// rounded down, and is solved alone; together the shares are valid for the whole cluster. Near the optimum for many
// small jobs. Pure functions.

#include <cstdint>
#include <functional>
#include <vector>

#include "ptc/run/policy/policies/shares/allocation.h"

namespace scalai::policy {

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
  std::vector<int> jobs;   // indices in the whole problem
  std::vector<int> pairs;  // likewise
};

// The sub-problems. InvalidArgument: a job that could run before fits no type in its group; the message names the
// first.
absl::StatusOr<std::vector<PopPart>> split(const ShareProblem& problem, const PopOptions& options);

using ShareSolver = std::function<absl::StatusOr<Shares>(const ShareProblem&)>;

struct PopShares {
  Shares shares;                   // objective: the least of the parts; efforts: their sum
  std::vector<double> objectives;  // by part
  std::vector<int64_t> pivots;     // by part: the published run time is set-up plus the slowest part
};
// Solves the parts one after the other with `solver`. Errors: those of split and of `solver`.
absl::StatusOr<PopShares> pop_shares(const ShareProblem& problem, const PopOptions& options, const ShareSolver& solver);

}  // namespace scalai::policy
