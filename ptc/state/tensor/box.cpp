#include "ptc/state/tensor/box.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "ptc/base/status.h"

namespace scalai::tensor {

Shape::Shape(std::initializer_list<int64_t> extents)
    : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) : rank_(static_cast<int8_t>(extents.size())) {
  SCALAI_CHECK(extents.size() <= kMaxRank, fmt::format("rank {}", extents.size()));
  for (size_t dim = 0; dim < extents.size(); ++dim) {
    SCALAI_CHECK(extents[dim] >= 0);
    extent_[dim] = extents[dim];
  }
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (int dim = 0; dim < rank_; ++dim) product *= (*this)[dim];
  return product;
}

std::array<int64_t, kMaxRank> Shape::strides() const {
  std::array<int64_t, kMaxRank> strides{};
  int64_t stride = 1;
  for (int dim = rank_ - 1; dim >= 0; --dim) {
    strides[static_cast<size_t>(dim)] = stride;
    stride *= (*this)[dim];
  }
  return strides;
}

std::string Shape::str() const {
  return fmt::format("[{}]", fmt::join(extent_.begin(), extent_.begin() + rank_, ", "));
}

Box::Box(std::initializer_list<int64_t> low, std::initializer_list<int64_t> high)
    : rank(static_cast<int8_t>(low.size())) {
  SCALAI_CHECK(low.size() == high.size() && low.size() <= kMaxRank);
  std::copy(low.begin(), low.end(), lo.begin());
  std::copy(high.begin(), high.end(), hi.begin());
}

Box Box::whole(const Shape& shape) {
  Box box;
  box.rank = static_cast<int8_t>(shape.rank());
  for (int dim = 0; dim < shape.rank(); ++dim) box.hi[static_cast<size_t>(dim)] = shape[dim];
  return box;
}

int64_t Box::volume() const {
  int64_t product = 1;
  bool beyond = false;  // of a file's box; an overflow would make it look empty
  for (int dim = 0; dim < rank; ++dim) {
    const int64_t size = std::max<int64_t>(extent(dim), 0);
    if (size == 0) return 0;
    beyond = __builtin_mul_overflow(product, size, &product) || beyond;
  }
  return beyond ? std::numeric_limits<int64_t>::max() : product;
}

bool Box::contains(const Box& other) const {
  SCALAI_CHECK(rank == other.rank);
  if (other.empty()) return true;
  for (size_t dim = 0; dim < static_cast<size_t>(rank); ++dim) {
    if (other.lo[dim] < lo[dim] || other.hi[dim] > hi[dim]) return false;
  }
  return true;
}

Shape Box::shape() const {
  std::array<int64_t, kMaxRank> extents{};
  for (int dim = 0; dim < rank; ++dim) extents[static_cast<size_t>(dim)] = std::max<int64_t>(extent(dim), 0);
  return Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(rank)));
}

std::string Box::str() const {
  std::string text = "[";
  for (size_t dim = 0; dim < static_cast<size_t>(rank); ++dim) {
    text += fmt::format("{}{}:{}", dim == 0 ? "" : ", ", lo[dim], hi[dim]);
  }
  return text + "]";
}

namespace {

// Takes `mark` off the front, after blanks.
bool take(std::string_view& text, char mark) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(1);
  return true;
}

bool take(std::string_view& text, int64_t& number) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return error == std::errc{};
}

}  // namespace

std::optional<Box> parse_box(std::string_view text) {
  if (!take(text, '[')) return std::nullopt;
  Box box;
  while (!take(text, ']')) {
    if (box.rank == kMaxRank || (box.rank > 0 && !take(text, ','))) return std::nullopt;
    const auto dim = static_cast<size_t>(int{box.rank});
    ++box.rank;
    if (!take(text, box.lo[dim]) || !take(text, ':') || !take(text, box.hi[dim])) return std::nullopt;
    if (box.lo[dim] < 0 || box.lo[dim] > box.hi[dim]) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return box;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  SCALAI_CHECK(a.rank == b.rank);
  Box common = a;
  for (size_t dim = 0; dim < static_cast<size_t>(a.rank); ++dim) {
    common.lo[dim] = std::max(a.lo[dim], b.lo[dim]);
    common.hi[dim] = std::min(a.hi[dim], b.hi[dim]);
    if (common.lo[dim] >= common.hi[dim]) return std::nullopt;
  }
  return common;
}

std::vector<Box> subtract(const Box& a, const Box& b) {
  if (a.empty()) return {};
  const std::optional<Box> common = intersect(a, b);
  if (!common) return {a};
  std::vector<Box> before;
  std::vector<Box> after;
  Box rest = a;  // shrinks to the common part, one dimension at a time
  for (size_t dim = 0; dim < static_cast<size_t>(a.rank); ++dim) {
    if (rest.lo[dim] < common->lo[dim]) {
      before.push_back(rest);
      before.back().hi[dim] = common->lo[dim];
    }
    if (common->hi[dim] < rest.hi[dim]) {
      after.push_back(rest);
      after.back().lo[dim] = common->hi[dim];
    }
    rest.lo[dim] = common->lo[dim];
    rest.hi[dim] = common->hi[dim];
  }
  before.insert(before.end(), after.begin(), after.end());
  std::sort(before.begin(), before.end());
  return before;
}

std::vector<Box> subtract(const Box& a, std::span<const Box> others) {
  std::vector<Box> rest;
  if (!a.empty()) rest.push_back(a);
  for (const Box& other : others) {
    std::vector<Box> next;
    for (const Box& box : rest) {
      const std::vector<Box> parts = subtract(box, other);
      next.insert(next.end(), parts.begin(), parts.end());
    }
    rest = std::move(next);
  }
  std::sort(rest.begin(), rest.end());
  return rest;
}

namespace {

// True when b continues a along `dim` and agrees with it in all other dimensions.
bool touches(const Box& a, const Box& b, size_t dim) {
  if (a.hi[dim] != b.lo[dim]) return false;
  for (size_t other = 0; other < static_cast<size_t>(a.rank); ++other) {
    if (other != dim && (a.lo[other] != b.lo[other] || a.hi[other] != b.hi[other])) return false;
  }
  return true;
}

// One sweep of merges along `dim`; true when something merged.
bool merge_along(std::vector<Box>& boxes, size_t dim) {
  // Neighbours along dim become adjacent when that dimension is compared last.
  const auto before = [dim](const Box& a, const Box& b) {
    for (size_t other = 0; other < static_cast<size_t>(a.rank); ++other) {
      if (other == dim) continue;
      if (a.lo[other] != b.lo[other]) return a.lo[other] < b.lo[other];
      if (a.hi[other] != b.hi[other]) return a.hi[other] < b.hi[other];
    }
    return a.lo[dim] < b.lo[dim];
  };
  std::sort(boxes.begin(), boxes.end(), before);
  size_t kept = 0;
  for (size_t i = 1; i < boxes.size(); ++i) {
    if (touches(boxes[kept], boxes[i], dim)) {
      boxes[kept].hi[dim] = boxes[i].hi[dim];
    } else {
      boxes[++kept] = boxes[i];
    }
  }
  const bool merged = kept + 1 < boxes.size();
  boxes.resize(kept + 1);
  return merged;
}

}  // namespace

std::vector<Box> merge(std::vector<Box> boxes) {
  std::erase_if(boxes, [](const Box& box) { return box.empty(); });
  if (boxes.size() < 2) return boxes;
  bool again = true;
  while (again) {
    again = false;
    for (int dim = boxes.front().rank - 1; dim >= 0; --dim) {
      again = merge_along(boxes, static_cast<size_t>(dim)) || again;
    }
  }
  std::sort(boxes.begin(), boxes.end());
  return boxes;
}

namespace {

// The flat range [begin, end) of the sub-box of `within` whose dimensions before `dim` are already fixed in `prefix`.
void decompose_from(const Box& within, Box prefix, int dim, int64_t begin, int64_t end, std::vector<Box>& out) {
  if (begin >= end) return;
  if (dim == within.rank) {
    out.push_back(prefix);
    return;
  }
  const auto d = static_cast<size_t>(dim);
  int64_t row = 1;  // elements of one index along dim
  for (int inner = dim + 1; inner < within.rank; ++inner) row *= within.extent(inner);
  const int64_t first = begin / row;
  const int64_t last = (end - 1) / row;
  const auto descend = [&](int64_t index, int64_t from, int64_t to) {
    Box fixed = prefix;
    fixed.lo[d] = within.lo[d] + index;
    fixed.hi[d] = fixed.lo[d] + 1;
    decompose_from(within, fixed, dim + 1, from, to, out);
  };
  if (first == last && (begin % row != 0 || end - begin != row)) {
    descend(first, begin - first * row, end - first * row);
    return;
  }
  int64_t full_begin = first;
  int64_t full_end = last + 1;
  if (begin % row != 0) {
    descend(first, begin - first * row, row);
    ++full_begin;
  }
  if (end % row != 0) --full_end;
  if (full_begin < full_end) {
    Box full = prefix;
    full.lo[d] = within.lo[d] + full_begin;
    full.hi[d] = within.lo[d] + full_end;
    for (size_t inner = d + 1; inner < static_cast<size_t>(within.rank); ++inner) {
      full.lo[inner] = within.lo[inner];
      full.hi[inner] = within.hi[inner];
    }
    out.push_back(full);
  }
  if (end % row != 0) descend(last, 0, end - last * row);
}

}  // namespace

std::vector<Box> decompose_flat(const Box& within, int64_t begin, int64_t end) {
  SCALAI_CHECK(0 <= begin && begin <= end && end <= within.volume());
  std::vector<Box> boxes;
  Box prefix = within;
  decompose_from(within, prefix, 0, begin, end, boxes);
  return boxes;
}

}  // namespace scalai::tensor
