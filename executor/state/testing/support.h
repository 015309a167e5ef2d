#pragma once
// What the tests of this folder share.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "executor/state/view.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

#define ASSERT_OK(expression) ASSERT_TRUE((expression).ok()) << (expression)
#define EXPECT_OK(expression)                                 \
  do {                                                        \
    const absl::Status status_seen = (expression);            \
    EXPECT_TRUE(status_seen.ok()) << message_of(status_seen); \
  } while (false)

namespace scalai::executor::state {

template <class T>
T value_or_die(absl::StatusOr<T> value) {
  SCALAI_CHECK(value.ok(), message_of(value.status()));
  return std::move(value).value();
}

using Index = std::array<int64_t, tensor::kMaxRank>;

// All indices of a box in row-major order.
inline std::vector<Index> indices_of(const Box& box) {
  std::vector<Index> all;
  if (box.empty()) return all;
  Index at = box.lo;
  while (true) {
    all.push_back(at);
    int dim = box.rank - 1;
    for (; dim >= 0; --dim) {
      const auto d = static_cast<size_t>(dim);
      if (++at[d] < box.hi[d]) break;
      at[d] = box.lo[d];
    }
    if (dim < 0) return all;
  }
}

// Position of an index in a dense array over the box, in elements.
inline int64_t position_in(const Box& box, const Index& index) {
  int64_t position = 0;
  for (int dim = 0; dim < box.rank; ++dim) {
    const auto d = static_cast<size_t>(dim);
    position = position * box.extent(dim) + index[d] - box.lo[d];
  }
  return position;
}

// Every box inside a grid that is not empty.
inline std::vector<Box> boxes_in(const tensor::Shape& grid) {
  std::vector<Box> boxes(1);
  boxes.front().rank = static_cast<int8_t>(grid.rank());
  for (int dim = 0; dim < grid.rank(); ++dim) {
    std::vector<Box> longer;
    for (const Box& box : boxes) {
      for (int64_t lo = 0; lo < grid[dim]; ++lo) {
        for (int64_t hi = lo + 1; hi <= grid[dim]; ++hi) {
          longer.push_back(box);
          longer.back().lo[static_cast<size_t>(dim)] = lo;
          longer.back().hi[static_cast<size_t>(dim)] = hi;
        }
      }
    }
    boxes = std::move(longer);
  }
  return boxes;
}

// A box inside `outer` that is not empty.
inline Box random_box(Random& random, const Box& outer) {
  Box box = outer;
  for (size_t d = 0; d < static_cast<size_t>(outer.rank); ++d) {
    box.lo[d] = random.between(outer.lo[d], outer.hi[d] - 1);
    box.hi[d] = random.between(box.lo[d] + 1, outer.hi[d]);
  }
  return box;
}

inline std::vector<std::byte> random_bytes(Random& random, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

}  // namespace scalai::executor::state
