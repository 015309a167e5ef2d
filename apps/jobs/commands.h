#pragma once
// The commands of `scalai-jobs`, one function each.

#include "ptc/base/command.h"

namespace scalai::apps {

Command import_command();     // public traces of jobs, hosts and prices
Command policies_command();   // scheduler policies and recovery designs
Command sweep_command();      // runs a scenario with all combinations of some values
Command breakeven_command();  // finds the restart cost at which two policies are equal

}  // namespace scalai::apps
