#pragma once
// Box: a half-open hyper-rectangle [lo, hi) in the index space of a logical tensor, and the algebra of boxes. Plain
// values, rank 0 to kMaxRank, always row-major. A rank-0 box holds one element (a scalar). Any thread may call.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scalai::tensor {

inline constexpr int kMaxRank = 5;

// Extents of a tensor, row-major.
class Shape {
 public:
  Shape() = default;  // rank 0
  Shape(std::initializer_list<int64_t> extents);
  explicit Shape(std::span<const int64_t> extents);  // CHECK: at most kMaxRank extents, none negative
  int rank() const { return rank_; }
  int64_t operator[](int dim) const { return extent_[static_cast<size_t>(dim)]; }
  int64_t elements() const;                       // 1 for rank 0
  std::array<int64_t, kMaxRank> strides() const;  // row-major, in elements
  friend bool operator==(const Shape&, const Shape&) = default;
  std::string str() const;  // "[1024, 4096]"

 private:
  std::array<int64_t, kMaxRank> extent_{};
  int8_t rank_ = 0;
};

struct Box {
  std::array<int64_t, kMaxRank> lo{};
  std::array<int64_t, kMaxRank> hi{};
  int8_t rank = 0;

  Box() = default;
  Box(std::initializer_list<int64_t> low, std::initializer_list<int64_t> high);
  static Box whole(const Shape& shape);

  int64_t extent(int dim) const { return hi[static_cast<size_t>(dim)] - lo[static_cast<size_t>(dim)]; }
  int64_t volume() const;  // elements; 1 for rank 0; the largest number if there are more
  bool empty() const { return volume() == 0; }
  bool contains(const Box& other) const;  // CHECK: equal rank; every box contains an empty one
  Shape shape() const;
  friend bool operator==(const Box&, const Box&) = default;
  friend auto operator<=>(const Box&, const Box&) = default;  // lexicographic by lo, then hi
  std::string str() const;                                    // "[0:256, 0:4096]"
};

// The inverse of str(), with optional blanks. nullopt: another text, a range with a negative begin or an end before its
// begin, or more than kMaxRank dimensions.
std::optional<Box> parse_box(std::string_view text);

// The common part; nullopt if it is empty. CHECK: equal rank.
std::optional<Box> intersect(const Box& a, const Box& b);

// a \ b as at most 2·rank disjoint boxes, in lexicographic order. Cuts leading dimensions first, so that the pieces are
// as long as possible in memory. CHECK: equal rank.
std::vector<Box> subtract(const Box& a, const Box& b);
// a \ (b1 ∪ b2 ∪ …) as disjoint boxes, sorted.
std::vector<Box> subtract(const Box& a, std::span<const Box> others);

// Merges neighbours until no two are left, and drops empty boxes. Neighbours differ in one dimension only, and touch
// there. The input boxes are disjoint. The output covers the same elements, is sorted, and does not depend on the order
// of the input.
std::vector<Box> merge(std::vector<Box> boxes);

// The flat element range [begin, end) of `within`, row-major, as at most 2·rank − 1 boxes in order (one box for rank
// 0). Positions count inside `within`; the boxes have the coordinates of the tensor. CHECK: 0 <= begin <= end <=
// within.volume().
std::vector<Box> decompose_flat(const Box& within, int64_t begin, int64_t end);

}  // namespace scalai::tensor
