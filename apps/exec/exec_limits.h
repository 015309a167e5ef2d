#pragma once
// Resources that this machine must have before a run of local workers begins: one line now is better than a failure
// later. Any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::apps {

// Largest needs of a run, and the resources of the machine. Bytes, numbers of files.
struct Needs {
  int64_t memory = 0;      // of all workers: old and new state, and copies in hosts' memories
  int64_t disk = 0;        // in the run's folder: the current checkpoint and the one being written
  int64_t open_files = 0;  // per process: own segments, peers' segments and their death notices
  bool locked_memory = false;
};
struct Limits {
  int64_t memory = 0, disk = 0, open_files = 0;
  bool locked_memory = true;  // network devices may lock any amount
};

// `on_gpus`: the devices' state is not in this machine's memory.
Needs needs_of(const scenario::Scenario& scenario, bool network, bool on_gpus = false);
// Limits of this process and of the folder's file system; raises that of open files.
Limits limits_of(const std::string& folder);
// One line per shortage: resource, amount, remedy. Empty: no shortage.
std::vector<std::string> shortages(const Needs& needs, const Limits& limits, const std::string& folder);

// NotFound with these lines.
absl::Status check_limits(const scenario::Scenario& scenario, bool network, bool on_gpus, const std::string& folder);

}  // namespace scalai::apps
