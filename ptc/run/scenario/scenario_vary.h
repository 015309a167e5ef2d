#pragma once
// Alternatives of one scenario: fields that take several values each (`scalai sim FILE --vary=PATH=A,B`, `scalai
// sweep`, `scalai breakeven`). Each combination is one alternative: a list of settings (scenario_set.h) and a label.
// Functions without state; any thread may call them.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::scenario {

struct Axis {
  std::string path;
  std::vector<std::string> values;  // at least one, all different
};

// "PATH=a,b,c": a comma inside a value is written "\,". InvalidArgument: not of this form, or a value twice.
absl::StatusOr<Axis> parse_axis(const std::string& text);

// Parses the texts of all axes. InvalidArgument: all problems, one a line: those of parse_axis, the path of an axis
// twice, more than `most` combinations in total.
absl::StatusOr<std::vector<Axis>> parse_axes(const std::vector<std::string>& texts, size_t most);

// Combinations in order, the last axis fastest; `point` counts from 0. One combination without axes.
size_t point_count(const std::vector<Axis>& axes);
std::vector<std::string> values_at(const std::vector<Axis>& axes, size_t point);
// The same as settings, "PATH=VALUE", behind those of all points.
std::vector<std::string> settings_at(const std::vector<Axis>& axes, size_t point, std::vector<std::string> all = {});

// One label a combination: its values joined by "+", as names of folders ("/" and blanks become "-"); all different.
std::vector<std::string> labels_of(const std::vector<Axis>& axes);

}  // namespace scalai::scenario
