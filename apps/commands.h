#pragma once
// The commands of `scalai`, one function each; scalai_main.cpp puts them together.

#include "ptc/base/command.h"

namespace scalai::apps {

Command validate_command();           // scenario files → all problems
Command models_command();             // the catalogue, or one model's tensors
Command machines_command();           // GPU kinds, hosts and cloud instances with their constants
Command plan_command();               // from one layout to another; shows and compares plans
Command compare_command();            // reports side by side
Command replay_command();             // a report's events through the control loop again
Command reshard_command();            // a checkpoint in another layout
Command parallelize_command();        // which configuration on so many GPUs
Command checkpoint_command();         // shows and verifies checkpoints
Command import_command();             // public traces of jobs, hosts and prices
Command validate_model_command();     // the cost models against published training runs
Command validate_policies_command();  // policies and recovery designs against published simulators
Command policies_command();           // scheduler policies and recovery designs
Command sweep_command();              // a scenario with all combinations of some values
Command breakeven_command();          // the restart cost at which two policies change places

}  // namespace scalai::apps
