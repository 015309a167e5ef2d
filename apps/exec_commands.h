#pragma once
// The commands of `scalai exec`, one function each; exec_main.cpp puts them together.

#include "ptc/base/command.h"

namespace scalai::apps {

Command exec_run_command();     // a scenario, for real
Command exec_worker_command();  // one host's devices
Command exec_ctl_command();     // asks a running controller

}  // namespace scalai::apps
