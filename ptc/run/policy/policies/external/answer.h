#pragma once
// The lines that a policy program writes once it was asked, version 1 (docs/policy-protocol.md): a Decision with all
// rules of a line checked, or a question of its own about rates or costs. Pure functions; arguments are used during the
// call only.

#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "ptc/run/policy/policies/external/known.h"
#include "ptc/run/policy/policy.h"

namespace scalai::policy {

struct Reply {
  std::string line;  // to be sent to the program, which then answers again
};

// Aborted: malformed JSON with its column, unknown or repeated fields and jobs, wrong types, GPUs beyond a job's bounds
// or the capacity, jobs that cannot share GPUs. The message begins with the problem and ends with the line.
absl::StatusOr<std::variant<Decision, Reply>> read_answer(const std::string& answer, const View& view,
                                                          const Known& known);

}  // namespace scalai::policy
