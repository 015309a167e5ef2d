#pragma once
// Several strategies of one scenario: each runs in a process of its own (SimGrid's engine exists once a process), into
// its own folder, at most as many at a time as there are cores.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::apps {

struct FamilyMember {
  std::string strategy;
  std::string folder;  // its report
  int exit_code = 0;
};

// Runs `arguments` of this executable once a strategy, with --strategy=NAME --out=FOLDER/NAME added. Standard output of the
// members is discarded, standard error passes through.
absl::StatusOr<std::vector<FamilyMember>> run_family(const std::vector<std::string>& arguments,
                                                     const std::vector<std::string>& strategies,
                                                     const std::string& folder);

}  // namespace scalai::apps
