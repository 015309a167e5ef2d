#pragma once
// What a table is to reach, as its "# goal:" line says: words separated by blanks, over the rows that are not fitted.
//
//   mape<=8   mean absolute error in percent (in points for tables of percentages)
//   max<=15   the largest error
//   order     rows whose published values differ by more than 5 % are predicted in the same order
//   tau>=0.8  Kendall's tau
//   exact     every prediction rounds to what is printed
//
// A row without prediction misses every goal.

#include <string>
#include <vector>

#include "ptc/parallel/validation/results.h"

namespace scalai::parallel::validation {

// Share of the published value below which rows count as equal in `order`.
inline constexpr double kOrderShare = 0.05;

// Problems: a word that is no goal.
void check_goals(const PublishedTable& table, Diagnostics& problems);

// CHECK: check_goals. The summaries of `result` are filled in.
std::vector<Goal> goals_of(const TableResult& result);

}  // namespace scalai::parallel::validation
