#pragma once
// Free ranges of an address space, handed out by best fit: the smallest range that is large enough, and of equal ones the
// first. Neighbours are always one range. Numbers only: whoever owns the space commits memory. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace scalai::executor::internal {

class FreeSpace {
 public:
  // Takes the front of a free range. bytes > 0. nullopt: no range is that long; nothing has changed then.
  std::optional<uint64_t> take(int64_t bytes);
  // Makes [begin, begin + bytes) free. bytes > 0; nothing of it is free (CHECK).
  void give(uint64_t begin, int64_t bytes);

  int64_t largest() const;  // what take() could give at most
  int64_t bytes() const { return bytes_; }
  size_t ranges() const { return by_begin_.size(); }

 private:
  std::map<uint64_t, uint64_t>::iterator drop(std::map<uint64_t, uint64_t>::iterator at);

  std::map<uint64_t, uint64_t> by_begin_;            // begin → end
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // the same: (bytes, begin)
  int64_t bytes_ = 0;
};

// Disjoint ranges, begin → end; those that touch are one.
using Ranges = std::map<uint64_t, uint64_t>;
// Adds [begin, end), not empty, and returns the parts of it that were in none before, in order.
std::vector<std::pair<uint64_t, uint64_t>> add_range(Ranges& ranges, uint64_t begin, uint64_t end);

}  // namespace scalai::executor::internal
