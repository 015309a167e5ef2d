#pragma once
// A record of samples read, in a few bytes: their number, and the sum of a hash of (pass, position, sample) modulo
// 2^128. Sums of parts add up in any order, so accounts of ranks and steps are added and compared without a list of
// ids. A sample that is missing, read twice or read in place of another changes the sum, except with probability about
// 2^-128. A value; each thread needs its own.
//
// mix() is the finalizer of SplitMix64, g = 0x9E3779B97F4A7C15, h the hash of a sample:
//   key = mix(pass + g)     low  h = mix(mix(position xor key) + sample)
//                           high h = mix(mix(position + key) xor mix(sample + g))

#include <cstdint>

namespace scalai::datasets {

struct SampleAccount {
  int64_t samples = 0;
  uint64_t sum_low = 0, sum_high = 0;
  friend bool operator==(const SampleAccount&, const SampleAccount&) = default;

  // Records that `pass` has read `sample` at `position` of its order.
  void add(int64_t pass, int64_t position, int64_t sample) {
    constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;
    const auto at = static_cast<uint64_t>(position), id = static_cast<uint64_t>(sample);
    const uint64_t key = mix(static_cast<uint64_t>(pass) + kGolden);
    add_sum(mix(mix(at ^ key) + id), mix(mix(at + key) ^ mix(id + kGolden)));
    ++samples;
  }
  // Adds all samples of `other`.
  void add(const SampleAccount& other) {
    add_sum(other.sum_low, other.sum_high);
    samples += other.samples;
  }

 private:
  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  void add_sum(uint64_t low, uint64_t high) {
    sum_low += low;
    sum_high += high + (sum_low < low ? 1 : 0);
  }
};

}  // namespace scalai::datasets
