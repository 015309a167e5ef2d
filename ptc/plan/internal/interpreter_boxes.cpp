#include "ptc/plan/internal/interpreter_boxes.h"

#include <numeric>

namespace scalai::plan::internal {

using tensor::Box;

std::optional<Box> common_part(const Box& a, const Box& b) {
  Box common = a;
  for (size_t dim = 0; dim < static_cast<size_t>(a.rank); ++dim) {
    common.lo[dim] = std::max(a.lo[dim], b.lo[dim]);
    common.hi[dim] = std::min(a.hi[dim], b.hi[dim]);
    if (common.lo[dim] >= common.hi[dim]) return std::nullopt;
  }
  return common;
}

int64_t elements_in(const Box& box) {
  int64_t count = 1;
  for (int dim = 0; dim < box.rank; ++dim) count *= box.extent(dim);
  return count;
}

// Takes out the first cover that has a part, and goes on with what is left around it.
int64_t uncovered(const Box& whole, std::span<const Box> covers) {
  std::optional<Box> hit;
  while (!covers.empty() && !(hit = common_part(whole, covers.front()))) covers = covers.subspan(1);
  if (covers.empty()) return elements_in(whole);
  covers = covers.subspan(1);
  Box box = whole;
  int64_t count = 0;
  for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) {
    Box below = box;
    Box above = box;
    below.hi[dim] = hit->lo[dim];
    above.lo[dim] = hit->hi[dim];
    if (below.lo[dim] < below.hi[dim]) count += uncovered(below, covers);
    if (above.lo[dim] < above.hi[dim]) count += uncovered(above, covers);
    box.lo[dim] = hit->lo[dim];
    box.hi[dim] = hit->hi[dim];
  }
  return count;
}

void BoxList::clear() {
  boxes_.clear();
  order_.clear();
  dim_ = 0;
  longest_ = 0;
}

void BoxList::prepare() {
  constexpr size_t kFew = 8;  // so few are looked at one by one as fast
  const size_t dims = boxes_.empty() ? 0 : static_cast<size_t>(boxes_.front().rank);
  size_t most = 0;
  std::vector<int64_t> begins;
  for (size_t dim = 0; dim < dims && boxes_.size() > kFew; ++dim) {
    begins.clear();
    for (const Box& box : boxes_) begins.push_back(box.lo[dim]);
    std::sort(begins.begin(), begins.end());
    const auto different = static_cast<size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (different > most) dim_ = dim;
    most = std::max(most, different);
  }
  order_.resize(boxes_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::sort(order_.begin(), order_.end(),
            [&](size_t a, size_t b) { return std::pair(low(a), a) < std::pair(low(b), b); });
  for (size_t i = 0; i < boxes_.size(); ++i) longest_ = std::max(longest_, high(i) - low(i));
}

bool BoxList::has(const Box& box) const {
  bool found = false;
  overlaps(box, [&](size_t index, const Box&) { found = found || boxes_[index] == box; });
  return found;
}

int64_t BoxList::covered(const Box& box) const {
  int64_t count = 0;
  overlaps(box, [&](size_t, const Box& common) { count += elements_in(common); });
  return count;
}

int64_t BoxList::uncovered(const Box& box) const {
  std::vector<Box> parts;
  overlaps(box, [&](size_t, const Box& common) { parts.push_back(common); });
  return internal::uncovered(box, parts);
}

std::optional<std::pair<size_t, size_t>> BoxList::clash() const {
  for (size_t i = 0; i < order_.size(); ++i) {
    for (size_t j = i + 1; j < order_.size() && low(order_[j]) < high(order_[i]); ++j) {
      if (common_part(boxes_[order_[i]], boxes_[order_[j]])) return std::minmax(order_[i], order_[j]);
    }
  }
  return std::nullopt;
}

}  // namespace scalai::plan::internal
