#pragma once
// Goals of a table, from its "# goal:" line: words separated by blanks, for the rows that are not fitted.
//
//   mape<=8   mean absolute error in percent (in points for tables of percentages)
//   max<=15   the largest error
//   order     rows whose published values differ by more than 5 % are predicted in the same order
//   tau>=0.8  Kendall's tau
//   exact     every prediction rounds to what is printed
//
// A row without a prediction misses every goal.

#include <vector>

#include "labs/validation/model/results.h"

namespace scalai::step::validation {

// Rows whose published values differ by at most this share are equal for `order`.
inline constexpr double kOrderShare = 0.05;

// Adds a problem for each unknown word.
void check_goals(const PublishedTable& table, Diagnostics& problems);

// The goals of a table and their results. CHECK: check_goals passed. The summaries of `result` are filled in.
std::vector<Goal> goals_of(const TableResult& result);

}  // namespace scalai::step::validation
