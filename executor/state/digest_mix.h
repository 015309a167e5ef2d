#pragma once
// The arithmetic of digest.h, identical on host and GPU. Pure functions; any thread.

#include <cstdint>

#include "ptc/state/tensor/host_device.h"

namespace scalai::executor::state::internal {

inline constexpr uint32_t kLeafBytes = 128;

inline constexpr uint64_t kPrime1 = 0x9e3779b185ebca87u;
inline constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4fu;
inline constexpr uint64_t kPrime3 = 0x165667b19e3779f9u;
inline constexpr uint64_t kPrime4 = 0x85ebca77c2b2ae63u;

SCALAI_HOST_DEVICE inline uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

// XXH64's last step: every bit of x changes every bit of the result with probability one half.
SCALAI_HOST_DEVICE inline uint64_t avalanche(uint64_t x) {
  x = (x ^ (x >> 33)) * kPrime2;
  x = (x ^ (x >> 29)) * kPrime3;
  return x ^ (x >> 32);
}

// One leaf: take() all its words in order, word j to lane k = j mod 4; then end().
struct Leaf {
  uint64_t number;
  uint64_t lane[4];

  SCALAI_HOST_DEVICE explicit Leaf(uint64_t i)
      : number(i), lane{i * kPrime2, i * kPrime2 + kPrime3, i * kPrime2 + 2 * kPrime3, i * kPrime2 + 3 * kPrime3} {}
  SCALAI_HOST_DEVICE void take(uint32_t k, uint64_t word) { lane[k] = rotate(lane[k] + word * kPrime2, 31) * kPrime1; }
  SCALAI_HOST_DEVICE uint64_t end() const {
    return avalanche(rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) + rotate(lane[3], 18) +
                     number * kPrime4);
  }
};

SCALAI_HOST_DEVICE inline uint64_t digest_of_leaves(uint64_t sum, uint64_t bytes) {
  return avalanche(sum + bytes * kPrime3);
}

}  // namespace scalai::executor::state::internal
