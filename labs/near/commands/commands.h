#pragma once
// The commands of `scalai-near`, one function each.

#include "ptc/base/command.h"

namespace scalai::apps {

Command near_command();         // a pipeline, each command where its input lies
Command near_worker_command();  // the worker of a host, which the other one starts
Command near_stats_command();   // `scalai checkpoint stats`, on hosts

}  // namespace scalai::apps
