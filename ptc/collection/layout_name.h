#pragma once
// The layout grammar, with its one parser: command line, scenarios and views all come here.
//
//     layout := field (("," | "-") field)*
//     field  := ("tp"|"pp"|"dp"|"cp"|"ep"|"etp"|"vpp") COUNT | "zero" ("0".."3")
//             | "order=" axis ("-" axis)*     axes among tp, cp, dp, pp, each exactly once, fastest first
//             | "stages=" COUNT (":" COUNT)*  layers per pipeline stage (pp·vpp entries)
//
// Missing sizes are 1, the default order is tp-cp-dp-pp (Megatron), default stages are balanced. With "-" as separator
// (file names) `order=` must come last. Each field at most once, in any order; canonical() prints the order above and
// leaves out what is default.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::collection {

struct ParallelConfig {
  int tp = 1, pp = 1, dp = 1, cp = 1, ep = 1, etp = 1, vpp = 1;
  int zero = 0;
  std::vector<std::string> order = {"tp", "cp", "dp", "pp"};
  std::vector<int> stages;  // empty = balanced

  int world() const { return tp * cp * dp * pp; }
  // Expert data parallelism: what is left of a pipeline stage's ranks after etp and ep.
  int edp() const { return tp * cp * dp / (etp * ep); }
  friend bool operator==(const ParallelConfig&, const ParallelConfig&) = default;
};

// What is wrong with a layout name, for callers that point into a file. Positions count characters from 1.
struct LayoutProblem {
  int position = 1;
  int length = 1;
  std::string message;
  std::string hint;  // may be empty
};

// Errors say which field and give its position ("at character 4: …"). Checks what needs no model: sizes >= 1, world
// fits 2^24, etp·ep divides tp·cp·dp, stages has pp·vpp entries. On an error `problem` (may be null) gets its parts.
absl::StatusOr<ParallelConfig> parse_layout(std::string_view text, LayoutProblem* problem = nullptr);

// Some fields of a layout, for whoever leaves the others open: "tp8,ep4". As above, but what is not named need not fit:
// etp·ep is not held against the other axes.
struct LayoutFields {
  ParallelConfig config;
  std::set<std::string, std::less<>> named;  // "tp", "order", …
};
absl::StatusOr<LayoutFields> parse_layout_fields(std::string_view text, LayoutProblem* problem = nullptr);

std::string canonical(const ParallelConfig& config, char separator = ',');

// Layers of each (virtual) stage: `stages`, or balanced (the first layers mod n stages get one more).
// CHECK: config.stages is empty or sums to `layers`.
std::vector<int> layers_per_stage(const ParallelConfig& config, int layers);

}  // namespace scalai::collection
