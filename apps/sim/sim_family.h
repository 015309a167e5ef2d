#pragma once
// Several strategies of one scenario: each runs in its own process (SimGrid's engine exists once per process) and
// writes to its own folder; at most one process per core at a time.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::apps {

struct FamilyMember {
  std::string strategy;
  std::string folder;  // folder of its report
  int exit_code = 0;
};

// Runs this executable with `arguments` once per strategy, with --strategy=NAME --out=FOLDER/NAME added. Discards the
// members' standard output; their standard error passes through.
absl::StatusOr<std::vector<FamilyMember>> run_family(const std::vector<std::string>& arguments,
                                                     const std::vector<std::string>& strategies,
                                                     const std::string& folder);

}  // namespace scalai::apps
