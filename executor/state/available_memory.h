#pragma once
// Memory that can still be allocated before the kernel starts to kill processes. Any thread.

#include <cstdint>
#include <string>

namespace scalai::executor::state {

// Bytes: the minimum of MemAvailable and the remainder of this process's control groups (v1 and v2), with their
// inactive file pages counted as free. A missing or unreadable file sets no limit. `root` is prepended to every path
// (for tests).
int64_t available_memory(const std::string& root = "");

}  // namespace scalai::executor::state
