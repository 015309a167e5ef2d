#pragma once
// Assignments: rows to columns so that the sum of gains is greatest. Exact, deterministic, integers only.

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace scalai::plan::internal {

// What counts first, and what decides between equals.
struct Gain {
  int64_t first = 0, second = 0;
  friend auto operator<=>(const Gain&, const Gain&) = default;
  friend Gain operator+(const Gain& a, const Gain& b) { return {a.first + b.first, a.second + b.second}; }
  friend Gain operator-(const Gain& a, const Gain& b) { return {a.first - b.first, a.second - b.second}; }
  Gain& operator+=(const Gain& other) { return *this = *this + other; }
  Gain& operator-=(const Gain& other) { return *this = *this - other; }
};

// Each row to a column of its own; rows <= columns. Result: column of each row. Shortest augmenting paths with prices
// (Kuhn 1955; Jonker and Volgenant 1987), O(rows²·columns).
std::vector<int> best_assignment(const std::vector<std::vector<Gain>>& gains);

// Rows and columns by the thousand, most of them alike: a gain between their classes, and more for single pairs.
struct ClassedGains {
  static constexpr Gain kForbidden{std::numeric_limits<int64_t>::min(), 0};
  struct More {
    int32_t row = 0, column = 0;
    Gain gain;
  };
  std::vector<int32_t> class_of_row, class_of_column;
  std::vector<int32_t> capacity;         // of each column: rows that it takes
  std::vector<std::vector<Gain>> gains;  // class of row × class of column; kForbidden: these never come together
  std::vector<More> more;                // on top, where the classes may; each pair once, sorted by row

  Gain gain(size_t row, size_t column) const {
    return gains[static_cast<size_t>(class_of_row[row])][static_cast<size_t>(class_of_column[column])];
  }
};

// Result: column of each row, or nothing when they do not all fit. A cheapest flow through the classes (row → class →
// class → column, or row → column for single pairs) by shortest augmenting paths, from prices and a first assignment
// that already suit most rows. Exact up to kExactClassPairs pairs of classes; beyond, rows take the best column left in
// order.
inline constexpr size_t kExactClassPairs = size_t{1} << 18;
std::optional<std::vector<int32_t>> best_assignment(const ClassedGains& problem);

}  // namespace scalai::plan::internal
