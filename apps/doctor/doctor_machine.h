#pragma once
// System facts for `scalai doctor`: processor, memory, limits, and the right of this machine's workers to map each
// other's memory. Reads /proc, /sys and /dev; changes nothing. One thread.

#include <cstdint>
#include <optional>
#include <string>

namespace scalai::apps {

struct MachineFacts {
  std::string kernel;  // "6.1.0"
  std::string libc;    // "2.36"
  std::string cpu;     // "AMD EPYC 9654", "" = unknown
  int cores = 0;       // cores that this process may use
  int64_t memory_bytes = 0;
  int64_t available_bytes = 0;
  int64_t open_files = 0;           // hard limit
  int64_t locked_bytes = -1;        // −1: no limit
  int64_t shm_bytes = -1;           // size of /dev/shm, −1: there is none
  int64_t shm_free_bytes = 0;       //
  std::string huge_pages;           // of shared memory: "always", "advise", "never", …; "" = unknown
  std::optional<int> ptrace_scope;  // of Yama
  std::string peers_problem;        // why a process may not map the memory of its sibling; "" = it may
  std::string fuse_problem;         // why /dev/fuse does not open; "" = it does
  std::string fusermount;           // path of fusermount3 or "" = not on PATH
  bool root = false;                // root mounts without fusermount3
};

// `root` is prepended to every path (for tests); limits and kernel are always those of this process.
MachineFacts look_at_machine(const std::string& root = "");

}  // namespace scalai::apps
