#pragma once
// What can be said of many elements in one pass: counts, extremes, sums, and magnitudes by powers of two. Values are
// taken as double; integers beyond 2^53 are rounded. Pure functions; any thread.
//
//   stats_of(chunk 0) ─┐
//   stats_of(chunk 1) ─┼─ add, in this order ─► the same digits on any number of threads
//   …                  ┘

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ptc/state/tensor/dtype.h"

namespace scalai::tensor {

struct ElementStats {
  // magnitudes[i]: elements with 2^(i − 127) <= |x| < 2^(i − 126), finite and not 0. The first has all that are smaller
  // too, the last all that are larger.
  static constexpr int kMagnitudes = 255, kBias = 127;

  int64_t elements = 0, nans = 0, infinities = 0, zeros = 0;
  double min = std::numeric_limits<double>::infinity();   // of finite elements, as all below; without any: infinity
  double max = -std::numeric_limits<double>::infinity();  // without any: −infinity
  double sum = 0, squares = 0;                            // of F64 beyond the range of double: infinite
  std::array<int64_t, kMagnitudes> magnitudes{};

  int64_t finite() const { return elements - nans - infinities; }
  double mean() const;  // 0 without finite elements
  double norm() const;  // the root of the sum of squares
  void add(const ElementStats& later);
};
// Of `count` dense elements, at any alignment.
ElementStats stats_of(DType dtype, int64_t count, const std::byte* data);

// How elements differ from earlier ones in the same places.
struct ElementChange {
  int64_t elements = 0;
  int64_t changed = 0;    // other values; two NaN are the same, and so are 0 and −0
  int64_t no_number = 0;  // of these, where one of both is not finite; not in what follows
  double squares = 0;     // of differences; beyond the range of double infinite, as the largest
  double largest = 0;     // |difference|

  double norm() const;
  void add(const ElementChange& later);
};
// `now` and `before` have `count` dense elements each; their types may differ.
ElementChange change_of(int64_t count, DType now_type, const std::byte* now, DType before_type,
                        const std::byte* before);

}  // namespace scalai::tensor
