#pragma once
// Division by a number known before a kernel starts, as one multiplication and one shift, because a division takes
// about twenty instructions on a GPU. Granlund and Montgomery 1994, Division by Invariant Integers using
// Multiplication, theorem 4.2 with N = 31. Any thread.

#include <bit>
#include <cstdint>

#include "ptc/state/tensor/host_device.h"

namespace scalai::executor::cuda::kernels {

inline constexpr uint32_t kMaxDividend = (1u << 31) - 1;

struct FastDivision {
  uint32_t divisor = 1;
  uint32_t multiplier = (1u << 31) + 1;
  uint32_t shift = 31;

  // 1 <= divisor < 2^31.
  static FastDivision by(uint32_t divisor) {
    const auto log2_up = static_cast<uint32_t>(std::bit_width(divisor - 1));
    const uint64_t multiplier = (uint64_t{1} << (31 + log2_up)) / divisor + 1;
    return {divisor, static_cast<uint32_t>(multiplier), 31 + log2_up};
  }

  // n / divisor for n <= kMaxDividend.
  SCALAI_HOST_DEVICE uint32_t quotient(uint32_t n) const {
    return static_cast<uint32_t>((static_cast<uint64_t>(n) * multiplier) >> shift);
  }
};

}  // namespace scalai::executor::cuda::kernels
