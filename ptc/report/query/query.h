#pragma once
// Numbers that users define over a table of a report: an SQL expression as it stands between SELECT and FROM, like
// "percentile(jct_s / isolated_s, 99)" or "mean(jct_s > 3600)". SQLite computes it, on a table in memory.
//
// Besides SQLite's own functions there are mean(x), median(x), percentile(x, p) with p of 0 to 100 (it interpolates, as
// the report's quantiles do; p is the same in all rows), and stddev(x) (of a sample). They leave empty cells out.
// count() gives a fraction's numerator or denominator: all numbers are floating, so count(*) / 2 is no whole division.
//
// An expression only reads: writing, other files, pragmas, recursion, random numbers and the time of day are refused,
// and so is what takes more than a bounded number of operations. Equal tables give equal numbers. Any thread may call
// the functions.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::report {

struct QueryTable {
  std::string name;                            // "jobs"
  std::vector<std::string> columns;            // numbers, empty = none ...
  std::vector<std::string> text_columns;       // ... but for these of them
  std::vector<std::vector<std::string>> rows;  // cells by column
};

// Whether the expression is one, over these columns (rows are not looked at), and its number is not made of a text
// column. Errors: InvalidArgument, says where in the expression, with a line "hint: …"; NotFound: this program was
// built without SQLite.
absl::Status check_expression(const QueryTable& table, const std::string& expression);

// The number that each expression gives; nullopt: none, such as the mean of no rows. Errors: as above; also a text
// instead of a number, and a computation that takes too long.
absl::StatusOr<std::vector<std::optional<double>>> evaluate(const QueryTable& table,
                                                            const std::vector<std::string>& expressions);

}  // namespace scalai::report
