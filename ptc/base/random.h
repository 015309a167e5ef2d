#pragma once
// The only random source: xoshiro256** seeded by SplitMix64 (Blackman and Vigna, 2018). Equal seeds give equal streams
// on any machine; the distributions of std are not portable, so the few needed draws are members. One thread per
// object.

#include <array>
#include <cstdint>

namespace scalai {

class Random {
 public:
  explicit Random(uint64_t seed);
  uint64_t next();                          // 64 uniform bits
  int64_t below(int64_t bound);             // uniform in [0, bound), unbiased; CHECK: bound > 0
  int64_t between(int64_t lo, int64_t hi);  // uniform in [lo, hi], both ends included; CHECK: lo <= hi
  double uniform();                         // uniform in [0, 1), 53 bits

  // Where the stream stands; another object that is set to it gives the same numbers from there.
  using State = std::array<uint64_t, 4>;
  const State& state() const { return state_; }
  void set(const State& state) { state_ = state; }

 private:
  State state_;
};

}  // namespace scalai
