#pragma once
// Hosts that commands name, and how workers start on them, from their options (host_options.h). One thread.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/near/placement.h"
#include "labs/near/session.h"
#include "ptc/base/command.h"

namespace scalai::apps {

// The hosts of a call; none: no option names any. `folder`: of hosts that say no other. InvalidArgument: all problems
// of all hosts.
absl::StatusOr<std::vector<near::Host>> read_hosts(const Arguments& arguments, const std::string& folder);

// InvalidArgument: a launcher that is none. NotFound: scalai-near is not installed.
absl::StatusOr<near::Launch> read_launch_of_workers(const Arguments& arguments);

// Asks every host for its files at the same time; of these the wanted ones (none: all). `jobs`: parts at a time on
// each; 0: as many as it has processors. Aborted: hosts that do not answer, all of them; NotFound: hosts that have no
// such folder; InvalidArgument: files that differ. `sessions` receives one of each host.
absl::StatusOr<near::Source> list_hosts(const std::vector<near::Host>& hosts, const std::set<std::string>& wanted,
                                        const near::Launch& launch, int jobs,
                                        std::vector<std::unique_ptr<near::Session>>& sessions);

}  // namespace scalai::apps
