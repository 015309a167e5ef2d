#pragma once
// Alternatives of one scenario (`scalai sim FILE --vary=PATH=A,B --seeds=N`): each runs in its own process (SimGrid's
// engine exists once per process) and writes to its own folder; at most one process per core at a time. Then one table
// compares them. One thread.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/command.h"
#include "ptc/run/scenario/scenario_vary.h"

namespace scalai::apps {

inline constexpr size_t kMostAlternatives = 1000;  // runs, seeds included

struct Alternatives {
  std::vector<scenario::Axis> axes;
  size_t seeds = 1;
  // One run of one alternative, as `scalai sim` was asked for; settings and folders are added.
  std::vector<std::string> words;
  std::vector<std::string> settings;  // --set of all alternatives
  uint64_t first_seed = 0;
  std::string name;    // of the only alternative, where there are no axes: the scenario's
  std::string out;     // "" = no reports
  std::string format;  // of the table
};

// Axes of --vary, and of several --strategy as axis "strategy", which comes first; none for one strategy.
// InvalidArgument: all problems, one a line.
absl::StatusOr<std::vector<scenario::Axis>> axes_of(const Arguments& arguments);

// Runs all and prints the table. The exit code: the largest of the runs. What a run says is shown when it ends, and an
// alternative that fails is named; the others go on.
int run_alternatives(const Alternatives& alternatives);

}  // namespace scalai::apps
