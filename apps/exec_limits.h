#pragma once
// What this machine must have before a run of local workers begins: better one line now than a failure in the middle.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/control/scenario.h"

namespace scalai::apps {

// What a run takes at most, and what there is. Bytes, files.
struct Needs {
  int64_t memory = 0;      // of all workers: old and new state, and copies in hosts' memories
  int64_t disk = 0;        // in the run's folder: the checkpoint that counts and the one being written
  int64_t open_files = 0;  // of one process: own segments, peers' segments and what tells of their end
  bool locked_memory = false;
};
struct Limits {
  int64_t memory = 0, disk = 0, open_files = 0;
  bool locked_memory = true;  // network devices may lock as much as they want
};

// `on_gpus`: devices' state is not in this machine's memory.
Needs needs_of(const control::Scenario& scenario, bool network, bool on_gpus = false);
// Of this process and the folder's file system. Open files are raised to what the system lets us have.
Limits limits_of(const std::string& folder);
// One line for everything that does not fit: which, how much, what helps. Empty: all fits.
std::vector<std::string> shortages(const Needs& needs, const Limits& limits, const std::string& folder);

// NotFound with these lines.
absl::Status check_limits(const control::Scenario& scenario, bool network, bool on_gpus, const std::string& folder);

}  // namespace scalai::apps
