#pragma once
// The commands of `scalai-accuracy`, one function each.

#include "ptc/base/command.h"

namespace scalai::apps {

// Models against published numbers: "accuracy", "accuracy model".
Command accuracy_command(const std::string& name);
// Policies and recovery designs against published simulators.
Command accuracy_policies_command();

}  // namespace scalai::apps
