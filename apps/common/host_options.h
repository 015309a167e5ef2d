#pragma once
// Hosts that work for a command, and how workers start on them: the options of `scalai near` and `scalai checkpoint
// stats`. scalai-near (labs/near) answers calls that name hosts.

#include <vector>

#include "ptc/base/command.h"

namespace scalai::apps {

std::vector<OptionSpec> host_options();    // --host, --hosts
std::vector<OptionSpec> launch_options();  // --launcher, --program, --timeout

}  // namespace scalai::apps
