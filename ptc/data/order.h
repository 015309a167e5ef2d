#pragma once
// In which order a pass reads the samples: as they are numbered, or in a pseudorandom order that is another one each
// pass. Any position is found alone, in O(1) memory and O(1) expected time, so no rank ever holds an array of ids, and
// every machine finds the same. A value; safe from several threads.
//
// The permutation of n samples is a balanced Feistel network (Luby and Rackoff, 1988) of 8 rounds over the numbers
// below 4^h, h the smallest ≥ 3 such that 4^h ≥ n: with x = L·2^h + R a round is (L, R) → (R, L xor F(R)). A result ≥ n
// goes through again (cycle walking; Black and Rogaway, 2002), which keeps it a permutation of the n and takes fewer
// than 4 times on average (64 / n times for n ≤ 16).
// With mix() the finalizer of SplitMix64 and g = 0x9E3779B97F4A7C15 (all arithmetic modulo 2^64):
//   key    = mix(mix(mix(seed + g) + pass + g) + n + g)
//   F_r(R) = mix(R xor mix(key + (r + 1)·g)) >> (64 − h)

#include <cstdint>

namespace scalai::data {

class Order {
 public:
  // `samples` > 0 (CHECK). Without shuffle the order is the identity whatever the seed.
  Order(int64_t samples, bool shuffle, uint64_t seed) : samples_(samples), shuffle_(shuffle), seed_(seed) { check(); }

  int64_t samples() const { return samples_; }
  // The sample that `pass` (≥ 0) reads at `position` in [0, samples()) (CHECK).
  int64_t at(int64_t pass, int64_t position) const;
  // The inverse: at which position `pass` reads `sample`.
  int64_t position_of(int64_t pass, int64_t sample) const;

 private:
  void check() const;
  int64_t samples_;
  bool shuffle_;
  uint64_t seed_;
};

}  // namespace scalai::data
