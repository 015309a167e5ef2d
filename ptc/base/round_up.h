#pragma once
// The least multiple of a unit that is not less than a value.

#include <cstdint>

namespace scalai {

// 5 in units of 4 → 8. `value` ≥ 0, `unit` > 0.
constexpr int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace scalai
