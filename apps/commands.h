#pragma once
// The commands inside `scalai`, one function each; parallelize is in parallelize/host_traffic.h, the others belong to
// separate programs.

#include "ptc/base/command.h"

namespace scalai::apps {

Command validate_command();  // lists all problems of scenario files
Command models_command();    // the catalogue, or the tensors of one model
Command machines_command();  // GPU kinds, hosts and cloud instances with their constants
Command plan_command();      // plans from one layout to another; shows and compares plans
Command compare_command();   // reports side by side
Command report_command();    // one HTML page about runs
Command replay_command();    // runs a report's events through the control loop again
Command init_command();      // a scenario to begin with
Command explain_command();   // what a field, a number or a word means
Command schema_command();    // all fields of scenario and cluster files

}  // namespace scalai::apps
