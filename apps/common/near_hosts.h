#pragma once
// Hosts that commands name, and how workers start on them: the options of `scalai near` and `scalai checkpoint stats`. One thread.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "near/session.h"
#include "ptc/base/command.h"

namespace scalai::apps {

// --host, --hosts.
std::vector<OptionSpec> host_options();
// --launcher, --program, --timeout.
std::vector<OptionSpec> launch_options();

// The hosts of a call; none: no option names any. `folder`: of hosts that say no other. InvalidArgument: all problems of all hosts.
absl::StatusOr<std::vector<near::Host>> read_hosts(const Arguments& arguments, const std::string& folder);

// InvalidArgument: a launcher that is none. NotFound: scalai-near is not installed.
absl::StatusOr<near::Launch> read_launch_of_workers(const Arguments& arguments);

}  // namespace scalai::apps
