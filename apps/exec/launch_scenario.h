#pragma once
// The scenario of a job that has none: `scalai launch` asks the training program for the state of each layout, and
// writes a scenario of one job that has these layouts and no events. Pure functions.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/state/collection/layout_name.h"

namespace scalai::apps {

struct LaunchedLayout {
  std::string name;  // canonical: "tp2,pp2"
  int gpus = 0;
  // Axes of the mesh, slowest first. All layouts of a launch have the same axes.
  std::vector<std::pair<std::string, int>> axes;
  friend bool operator==(const LaunchedLayout&, const LaunchedLayout&) = default;
};
// From names of layouts. An axis that a layout does not name has size 1 there. InvalidArgument, with all problems: a
// wrong name, an axis other than tp, cp, dp and pp, two layouts of one size.
absl::StatusOr<std::vector<LaunchedLayout>> launched_layouts(const std::vector<std::string>& names);

// What the program is asked, as JSON: {"folder": …, "layouts": [{"name": …, "axes": [["pp", 2] …]} …]}. For each layout
// it writes FOLDER/NAME.textproto, and FOLDER/job.json at the end. NotFound: JSON has no name for the folder, which is
// not UTF-8.
absl::StatusOr<std::string> description_request(const std::string& folder, const std::vector<LaunchedLayout>& layouts);

struct LaunchedJob {
  std::string name = "job";
  int hosts = 1, gpus_per_host = 1;
  int gpus = 0;  // at the start
  int64_t steps = 0;
  int64_t checkpoint_every = 0;  // steps; 0: none
};
// `job_json`: the program's answer, {"data": null} or the state of its Sampler. InvalidArgument: it is none.
absl::StatusOr<std::string> launch_scenario(const LaunchedJob& job, const std::vector<LaunchedLayout>& layouts,
                                            const std::string& job_json);

}  // namespace scalai::apps
