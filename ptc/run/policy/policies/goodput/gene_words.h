#pragma once
// Eight genes in a word: byte k of the word is gene k, GPUs on a host (0 … 255). Operations on all eight at once, of
// plain integer arithmetic. Pure functions; any thread.

#include <bit>
#include <cstdint>

namespace scalai::policy::gene_words {

inline constexpr uint64_t kOnes = 0x0101010101010101ULL;
inline constexpr uint64_t kEven = 0x00ff00ff00ff00ffULL;  // bytes 0, 2, 4, 6 as numbers of 16 bits

inline int gene(uint64_t word, size_t k) { return static_cast<int>(word >> (8 * k) & 0xff); }
inline uint64_t with_gene(uint64_t word, size_t k, int value) {
  return (word & ~(uint64_t{0xff} << (8 * k))) | (static_cast<uint64_t>(value) << (8 * k));
}

// 1 in each byte that is not zero, else 0.
inline uint64_t nonzero(uint64_t word) {
  constexpr uint64_t kLow7 = 0x7f * kOnes;
  return ((((word & kLow7) + kLow7) | word) >> 7) & kOnes;
}
inline int count(uint64_t ones) { return static_cast<int>((ones * kOnes) >> 56); }
inline int sum(uint64_t word) {
  return static_cast<int>((((word & kEven) + ((word >> 8) & kEven)) * 0x0001000100010001ULL) >> 48);
}
// All bits of the bytes that `ones` has a 1 in.
inline uint64_t whole(uint64_t ones) { return ones * 0xff; }

// Calls f(k) for each byte k that `ones` has a 1 in, in order.
template <class Function>
void each(uint64_t ones, Function f) {
  for (; ones != 0; ones &= ones - 1) f(static_cast<size_t>(std::countr_zero(ones)) / 8);
}

// Eight sums, one a gene, of 16 bits each.
class Columns {
 public:
  void add(uint64_t word) {
    even_ += word & kEven;
    odd_ += (word >> 8) & kEven;
  }
  int at(size_t k) const { return static_cast<int>(((k % 2 == 0 ? even_ : odd_) >> (8 * (k - k % 2))) & 0xffff); }

 private:
  uint64_t even_ = 0, odd_ = 0;
};

}  // namespace scalai::policy::gene_words
