#pragma once
// Rounding up to a multiple.

#include <cstdint>

namespace scalai {

// The smallest multiple of `unit` >= `value`: round_up(5, 4) = 8. Needs value >= 0 and unit > 0.
constexpr int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace scalai
