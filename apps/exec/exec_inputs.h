#pragma once
// What options of `scalai exec` name for each job of a scenario: files, mounts, programs. Results are by the job's
// name. Errors: InvalidArgument (a word that fits no job or two words for one, a file that is not of the job), those of
// the files. Functions of one thread.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/common/runs/state_options.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::apps {

using ByJob = std::map<std::string, std::string>;

// --state: PATH, or JOB=PATH for each of several jobs. Workers read these files, so their paths are made absolute.
absl::StatusOr<ByJob> states_of(const scenario::Scenario& scenario, const std::vector<std::string>& words);
// --train: COMMAND, or JOB=COMMAND.
absl::StatusOr<ByJob> trainers_of(const scenario::Scenario& scenario, const StateOptions& state,
                                  const std::vector<std::string>& words);
// --mount: DIR, or JOB=DIR.
absl::StatusOr<ByJob> mounts_of(const scenario::Scenario& scenario, const std::vector<std::string>& words);
// The indices of the jobs' datasets, as paths that hold anywhere on the machine: workers open them, too.
absl::StatusOr<ByJob> datasets_of(const scenario::Scenario& scenario);
// InvalidArgument: one of the paths lies in `out`, which a run clears when it begins.
absl::Status check_apart(const std::string& what, const ByJob& paths, const std::string& out);

}  // namespace scalai::apps
