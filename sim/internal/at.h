#pragma once
// Indices of links, ranks and groups are int (-1 means none); containers want size_t.

#include <cstddef>

namespace scalai::sim {

inline size_t at(int index) { return static_cast<size_t>(index); }

}  // namespace scalai::sim
