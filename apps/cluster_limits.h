#pragma once
// What commands take a cluster to be where nothing describes one.

#include <cstdint>

namespace scalai::apps {

inline constexpr int kGpusPerHost = 8;
inline constexpr int64_t kMostDevices = int64_t{1} << 18;  // that a command line may ask for

}  // namespace scalai::apps
