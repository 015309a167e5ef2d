#pragma once
// The commands of `scalai exec`, one function each; apps/exec_main.cpp combines them.

#include <vector>

#include "ptc/base/command.h"

namespace scalai::apps {

Command exec_run_command();        // executes a scenario
Command exec_launch_command();     // trains a program, without a scenario
Command exec_worker_command();     // the devices of one host
Command exec_sync_command();       // the weights of a run that trains, for receivers
Command exec_ctl_command();        // queries or steers a running controller
Command exec_bench_command();      // measures changes of state
Command exec_calibrate_command();  // writes a cluster file of this machine
// `scalai checkpoint stats` of a run, and `scalai checkpoint reshard` with steps on a GPU.
std::vector<Command> exec_checkpoint_commands();

}  // namespace scalai::apps
