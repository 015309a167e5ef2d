#pragma once
// Free ranges of an address space, allocated by best fit: the smallest range that is large enough; of equal ones the
// first. Adjacent ranges are merged. Only numbers: the owner of the space commits memory. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace scalai::executor::state::internal {

class FreeSpace {
 public:
  // Takes the front of a free range. bytes > 0. nullopt: no range is large enough; nothing has changed then.
  std::optional<uint64_t> take(int64_t bytes);
  // Frees [begin, begin + bytes). bytes > 0. CHECK: no part of it is free.
  void give(uint64_t begin, int64_t bytes);

  int64_t largest() const;  // the largest request that take() can satisfy
  int64_t bytes() const { return bytes_; }
  size_t ranges() const { return by_begin_.size(); }

 private:
  std::map<uint64_t, uint64_t>::iterator drop(std::map<uint64_t, uint64_t>::iterator at);

  std::map<uint64_t, uint64_t> by_begin_;            // begin → end
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // the same ranges: (bytes, begin)
  int64_t bytes_ = 0;
};

// Disjoint ranges, begin → end; adjacent ranges are merged.
using Ranges = std::map<uint64_t, uint64_t>;
// Adds the non-empty range [begin, end); returns the parts of it that were new, in order.
std::vector<std::pair<uint64_t, uint64_t>> add_range(Ranges& ranges, uint64_t begin, uint64_t end);

}  // namespace scalai::executor::state::internal
