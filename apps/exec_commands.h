#pragma once
// The commands of `scalai exec`, one function each; exec_main.cpp puts them together.

#include "ptc/base/command.h"

namespace scalai::apps {

Command exec_run_command();        // a scenario, for real
Command exec_worker_command();     // one host's devices
Command exec_ctl_command();        // asks a running controller
Command exec_bench_command();      // times changes of state
Command exec_calibrate_command();  // a cluster file of this machine
Command exec_doctor_command();     // what this machine has

}  // namespace scalai::apps
