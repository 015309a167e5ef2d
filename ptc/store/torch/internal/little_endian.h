#pragma once

#include <cstdint>
#include <string>

namespace scalai::store::internal {

// The lowest `size` bytes of a number, lowest first.
inline void append_number(std::string& to, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) to.push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace scalai::store::internal
