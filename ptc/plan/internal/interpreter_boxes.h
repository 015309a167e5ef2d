#pragma once
// Arithmetic of boxes for the interpreters. Their own, so that a mistake in what the planner uses shows.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ptc/state/tensor/box.h"

namespace scalai::plan::internal {

std::optional<tensor::Box> common_part(const tensor::Box& a, const tensor::Box& b);
int64_t elements_in(const tensor::Box& box);
// Elements of `box` in none of `covers`, which may overlap.
int64_t uncovered(const tensor::Box& box, std::span<const tensor::Box> covers);

// Boxes of one tensor that can be asked for those that share elements with a given one, without looking at all of them.
// Fill with add(), then prepare(); clear() begins anew and keeps the memory.
class BoxList {
 public:
  void clear();
  void add(const tensor::Box& box) { boxes_.push_back(box); }
  void prepare();
  bool empty() const { return boxes_.empty(); }
  const std::vector<tensor::Box>& boxes() const { return boxes_; }  // as added

  // Calls visit(index as added, common part).
  template <class Visit>
  void overlaps(const tensor::Box& box, Visit visit) const;
  bool has(const tensor::Box& box) const;
  int64_t covered(const tensor::Box& box) const;    // elements of `box`, when no two of the list share elements
  int64_t uncovered(const tensor::Box& box) const;  // elements of `box` in none of the list
  // Two that share elements, as indices.
  std::optional<std::pair<size_t, size_t>> clash() const;

 private:
  int64_t low(size_t index) const { return boxes_[index].rank == 0 ? 0 : boxes_[index].lo[dim_]; }
  int64_t high(size_t index) const { return boxes_[index].rank == 0 ? 1 : boxes_[index].hi[dim_]; }

  std::vector<tensor::Box> boxes_;
  size_t dim_ = 0;             // where the boxes begin at the most different places
  std::vector<size_t> order_;  // by low()
  int64_t longest_ = 0;        // along dim_
};

template <class Visit>
void BoxList::overlaps(const tensor::Box& box, Visit visit) const {
  const int64_t from = box.rank == 0 ? 0 : box.lo[dim_];
  const int64_t to = box.rank == 0 ? 1 : box.hi[dim_];
  const auto begin =
      std::partition_point(order_.begin(), order_.end(), [&](size_t index) { return low(index) + longest_ <= from; });
  for (auto at = begin; at != order_.end() && low(*at) < to; ++at) {
    if (const auto common = common_part(boxes_[*at], box)) visit(*at, *common);
  }
}

}  // namespace scalai::plan::internal
