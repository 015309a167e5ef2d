#pragma once
// Limits and defaults of commands without a cluster file.

#include <cstdint>

namespace scalai::apps {

inline constexpr int kGpusPerHost = 8;
inline constexpr int64_t kMostDevices = int64_t{1} << 18;  // accepted on a command line

}  // namespace scalai::apps
