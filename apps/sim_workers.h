#pragma once
// Many runs of `scalai-sim`, several at a time, each a process of its own: what sweeps and break-even searches are made of.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::apps {

struct SimResult {
  int exit_code = 0;  // 70 when a signal ended it
  std::string out;    // standard output
  std::string error;  // what went wrong: the first line on standard error that says "error:", else the last; "" = none
};

// scalai-sim beside this executable, or its bare name for PATH. Error (NotFound, exit code 4): it is neither here nor there.
absl::StatusOr<std::string> find_simulator();

// Runs `program` with each list of words, at most `at_once` at a time, and tells of each as it ends, in that order. Error: a
// process cannot be started (those under way are waited for), or what `done` returns, which ends it the same way.
absl::Status run_processes(const std::string& program, const std::vector<std::vector<std::string>>& runs,
                           size_t at_once,
                           const std::function<absl::Status(size_t run, const SimResult& result)>& done);

}  // namespace scalai::apps
