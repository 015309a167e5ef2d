#pragma once
// Order of the samples in a pass: by number, or a pseudorandom permutation that differs in each pass. A position is
// found alone in O(1) memory and O(1) expected time, so no rank holds an array of ids, and all machines find the same.
// A value; any thread may call its const methods, several at once.
//
// The permutation of n samples is a balanced Feistel network (Luby and Rackoff, 1988) of 8 rounds over the numbers
// below 4^h, with the smallest h ≥ 3 such that 4^h ≥ n. With x = L·2^h + R a round is (L, R) → (R, L xor F(R)). A
// result ≥ n goes through the network again (cycle walking; Black and Rogaway, 2002). So the result is a permutation of
// the n numbers. The network is used fewer than 4 times on average (64 / n times for n ≤ 16).
// mix() is the finalizer of SplitMix64, g = 0x9E3779B97F4A7C15, all arithmetic modulo 2^64:
//   key    = mix(mix(mix(seed + g) + pass + g) + n + g)
//   F_r(R) = mix(R xor mix(key + (r + 1)·g)) >> (64 − h)

#include <cstdint>

namespace scalai::datasets {

class Order {
 public:
  // CHECK: 0 < samples ≤ 2^52. Without shuffle the order is the identity for any seed.
  Order(int64_t samples, bool shuffle, uint64_t seed) : samples_(samples), shuffle_(shuffle), seed_(seed) { check(); }

  int64_t samples() const { return samples_; }
  // The sample at `position` of `pass`. CHECK: pass ≥ 0, position in [0, samples()).
  int64_t at(int64_t pass, int64_t position) const;
  // The inverse: the position of `sample` in `pass`. CHECK: pass ≥ 0, sample in [0, samples()).
  int64_t position_of(int64_t pass, int64_t sample) const;

 private:
  void check() const;
  int64_t samples_;
  bool shuffle_;
  uint64_t seed_;
};

}  // namespace scalai::datasets
