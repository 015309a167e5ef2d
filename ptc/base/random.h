#pragma once
// The one random source: xoshiro256** seeded by SplitMix64 (Blackman and Vigna, 2018). Same seed, same stream on any
// machine; std::distributions are not portable, so the few draws we need are members.

#include <array>
#include <cstdint>

namespace scalai {

class Random {
 public:
  explicit Random(uint64_t seed);
  uint64_t next();                          // 64 uniform bits
  int64_t below(int64_t bound);             // uniform in [0, bound), bound > 0; unbiased
  int64_t between(int64_t lo, int64_t hi);  // uniform in [lo, hi], both ends included
  double uniform();                         // uniform in [0, 1), 53 bits

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace scalai
