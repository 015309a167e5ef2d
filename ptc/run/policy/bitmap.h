#pragma once
// A set of small integers in ascending order: a bit each, and above every 64 words a word that says which are not
// empty. insert, erase and "the first at or after k" take log64 n steps.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace scalai::policy {

class Bitmap {
 public:
  explicit Bitmap(size_t size = 0) {
    do {
      size = (size + 63) / 64;
      levels_.emplace_back(size == 0 ? 1 : size, 0);
    } while (size > 1);
  }

  void insert(size_t k) {
    for (std::vector<uint64_t>& level : levels_) {
      level[k / 64] |= uint64_t{1} << (k % 64);
      k /= 64;
    }
  }

  void erase(size_t k) {
    for (std::vector<uint64_t>& level : levels_) {
      level[k / 64] &= ~(uint64_t{1} << (k % 64));
      if (level[k / 64] != 0) return;
      k /= 64;
    }
  }

  bool contains(size_t k) const { return (levels_[0][k / 64] >> (k % 64) & 1) != 0; }
  bool empty() const { return levels_.back()[0] == 0; }

  // The smallest member >= k; -1 if there is none.
  int64_t next(size_t k) const {
    for (size_t level = 0; level < levels_.size(); ++level) {
      if (k / 64 >= levels_[level].size()) return -1;
      const uint64_t rest = levels_[level][k / 64] & (~uint64_t{0} << (k % 64));
      if (rest != 0) return first_below(level, k / 64 * 64 + static_cast<size_t>(std::countr_zero(rest)));
      k = k / 64 + 1;  // the word after, one level up
    }
    return -1;
  }

 private:
  // The smallest member under bit k of a level.
  int64_t first_below(size_t level, size_t k) const {
    while (level-- > 0) k = k * 64 + static_cast<size_t>(std::countr_zero(levels_[level][k]));
    return static_cast<int64_t>(k);
  }

  std::vector<std::vector<uint64_t>> levels_;  // [0] has a bit a member
};

}  // namespace scalai::policy
