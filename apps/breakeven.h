#pragma once
// Where two curves cross: the search behind `scalai breakeven`. Pure but for the function it asks.

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
  std::vector<BreakevenSample> samples;  // all that were taken, by x
  std::optional<std::pair<double, double>>
      bracket;  // a − b changes sign between these; equal at both when both are one x
};

// Looks at both ends of [low, high] and, if a − b has the same sign there, at seven points in between; then halves the first
// stretch over which the sign changes until it is no wider than `tolerance`,
// or no number lies inside it. Curves that cross more than once have more than one
// such place: it finds the first it sees. Errors: of `at`.
absl::StatusOr<Breakeven> find_breakeven(double low, double high, double tolerance,
                                         const std::function<absl::StatusOr<BreakevenSample>(double x)>& at);

// Whether more of a metric is better, as of utilization: a name, or a JSON pointer, of which the last part counts
// ("/jobs/0/steps"). Of all that it does not know less is better.
bool more_is_better(const std::string& metric);

}  // namespace scalai::apps
