#pragma once
// Shares in a snapshot of a run (ptc/run/policy/answer_log.h): a solver that is asked once. Pure functions.

#include <string>

#include "absl/status/statusor.h"
#include "ptc/run/policy/answer_log.h"
#include "ptc/run/policy/policies/shares/pop.h"

namespace scalai::policy {

// Shares as bytes; every number comes back as the same double. InvalidArgument: no such bytes, or not of this problem's
// jobs, types and pairs.
std::string bytes_of(const Shares& shares);
absl::StatusOr<Shares> shares_of(std::string_view bytes, const ShareProblem& problem);
// A digest of all that a solver sees.
std::string digest_of(const ShareProblem& problem);

// `solver` is a function of the problem alone. The log outlives what is returned.
ShareSolver kept(ShareSolver solver, AnswerLog* log);

}  // namespace scalai::policy
