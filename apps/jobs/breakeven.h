#pragma once
// The search behind `scalai breakeven`: a crossing of two curves. Pure, except for the given function.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::apps {

struct BreakevenSample {
  double x = 0;
  double a = 0, b = 0;
};

struct Breakeven {
  std::vector<BreakevenSample> samples;  // all samples, sorted by x
  // a − b changes sign between these; two equal values: a = b there.
  std::optional<std::pair<double, double>> bracket;
};

// Samples both ends of [low, high] and, if a − b has the same sign there, seven points between; then halves the first
// stretch with a change of sign until it is at most `tolerance` wide, or contains no number. Finds one crossing if
// there are several. `whole`: low and high are whole, and only whole numbers are sampled. Errors: those of `at`.
absl::StatusOr<Breakeven> find_breakeven(double low, double high, double tolerance,
                                         const std::function<absl::StatusOr<BreakevenSample>(double x)>& at,
                                         bool whole = false);

// True if a larger value of the metric is better, as for utilization. `metric`: a name, or a JSON pointer, whose last
// part counts ("/jobs/0/steps"). False for unknown metrics.
bool more_is_better(const std::string& metric);

}  // namespace scalai::apps
