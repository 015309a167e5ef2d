#pragma once
// The commands of `scalai-accuracy`, one function each.

#include "ptc/base/command.h"

namespace scalai::apps {

Command validate_model_command();     // cost models against published training runs
Command validate_policies_command();  // policies and recovery designs against published simulators

}  // namespace scalai::apps
