#pragma once
// The optimum of a small linear program by brute force: every set of rows that makes a corner is solved, corners that
// break a row are left out, the best of the others wins. No simplex, no solver. Pure functions.

#include <optional>
#include <vector>

namespace scalai::policy::small {

// maximise objective·x subject to rows[i]·x <= bounds[i] and x >= 0. Its allowed set must be bounded in the direction
// of the objective.
struct SmallProgram {
  std::vector<double> objective;
  std::vector<std::vector<double>> rows;
  std::vector<double> bounds;

  void at_most(std::vector<double> row, double bound);
  void at_least(std::vector<double> row, double bound);  // the same row with its signs changed
};

struct Corner {
  double value = 0;
  std::vector<double> x;
};

// nullopt: no x is allowed. A row may be broken by 1e-9 of the largest bound. O(choose(rows + columns, columns)).
std::optional<Corner> best_corner(const SmallProgram& program);

}  // namespace scalai::policy::small
