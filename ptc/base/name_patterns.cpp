#include "ptc/base/name_patterns.h"

#include <fnmatch.h>

#include <algorithm>

namespace scalai {

bool matches_any(const std::string& name, std::span<const std::string> patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

}  // namespace scalai
