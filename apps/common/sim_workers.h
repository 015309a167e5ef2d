#pragma once
// Several concurrent runs of `scalai sim`, each in its own process, for sweeps and break-even searches.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace scalai::apps {

struct SimResult {
  int exit_code = 0;     // 70 after a signal
  std::string out;       // standard output
  std::string messages;  // standard error
  std::string error;     // the error: the first line there with "error:", else the last line; "" = none
};

// Runs `program` with each list of words, at most `at_once` at a time. Calls `done` for each run when it ends, in order
// of their ends, on the calling thread. Errors: a process cannot be started, or an error of `done`; both wait for the
// running processes.
absl::Status run_processes(const std::string& program, const std::vector<std::vector<std::string>>& runs,
                           size_t at_once,
                           const std::function<absl::Status(size_t run, const SimResult& result)>& done);

}  // namespace scalai::apps
