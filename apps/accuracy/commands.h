#pragma once
// The commands of `scalai-accuracy`, one function each.

#include "ptc/base/command.h"

namespace scalai::apps {

Command accuracy_command(const std::string& name);  // models against published numbers; also as "validate-model"
Command validate_policies_command();                // policies and recovery designs against published simulators

}  // namespace scalai::apps
