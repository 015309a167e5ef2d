#pragma once
// How much memory may still be taken before the kernel begins to kill processes.

#include <cstdint>
#include <string>

namespace scalai::executor {

// Bytes: the least of MemAvailable and what is left under this process's control groups (v1 and v2), their inactive file
// pages counted as free. A file that is missing or unreadable does not limit. `root` stands before every path (tests).
int64_t available_memory(const std::string& root = "");

}  // namespace scalai::executor
