#pragma once
// For long tests: a share of their cases is played each time, all of them by `./dev soak`.

#include <cstddef>
#include <cstdlib>

namespace scalai {

// Whether everything is to be played (SCALAI_SOAK is set).
inline bool soaking() {
  const char* value = std::getenv("SCALAI_SOAK");
  return value != nullptr && *value != '\0';
}
// Of a long list of cases one in `share`; all of them when soaking.
inline bool in_share(size_t index, size_t share) { return soaking() || index % share == 0; }

}  // namespace scalai
