#pragma once
// The layout grammar and its only parser, for the command line, scenarios and views. Pure functions; any thread may
// call.
//
//     layout := field (("," | "-") field)*
//     field  := ("tp"|"pp"|"dp"|"cp"|"ep"|"etp"|"vpp") COUNT | "zero" ("0".."3")
//             | "order=" axis ("-" axis)*     axes among tp, cp, dp, pp, each exactly once, fastest first
//             | "stages=" COUNT (":" COUNT)*  layers per pipeline stage (pp·vpp entries)
//
// Missing sizes are 1, the default order is tp-cp-dp-pp (Megatron), default stages are balanced. Fields come in any
// order, each at most once. With "-" as separator (file names) `order=` comes last.

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
  // Expert data parallelism: the ranks of a pipeline stage / (etp·ep).
  int edp() const { return tp * cp * dp / (etp * ep); }
  friend bool operator==(const ParallelConfig&, const ParallelConfig&) = default;
};

// One problem of a layout name, for callers that point into a file. Positions count characters from 1.
struct LayoutProblem {
  int position = 1;
  int length = 1;
  std::string message;
  std::string hint;  // may be empty
};

// Parses a whole layout. Checks everything that needs no model: sizes >= 1, a world of at most 2^24, etp·ep divides
// tp·cp·dp, stages has pp·vpp entries. InvalidArgument names the field and its position ("at character 4: …");
// `problem`, unless null, then receives the parts of the message.
absl::StatusOr<ParallelConfig> parse_layout(std::string_view text, LayoutProblem* problem = nullptr);

// Parses some fields of a layout ("tp8,ep4") for a caller that leaves the other fields open. Checks as above, except
// that etp·ep need not divide tp·cp·dp. A missing size counts as 1 there, too: "stages=6:6" needs "pp2" or "vpp2".
struct LayoutFields {
  ParallelConfig config;
  std::set<std::string, std::less<>> named;  // fields in the text: "tp", "order", …
};
absl::StatusOr<LayoutFields> parse_layout_fields(std::string_view text, LayoutProblem* problem = nullptr);

// The name with the fields in the order of the grammar and without defaults, but for etp1 if it is asked for; "tp1" if
// all are default. With '-' as separator `order=` comes after `stages=`.
std::string canonical(const ParallelConfig& config, char separator = ',', bool with_etp = false);

// The most virtual stages that so many layers can be cut into. In an interleaved pipeline the head may have a stage of
// its own, and the embedding another one (Megatron-Core: --account-for-loss-in-pipeline-split,
// --account-for-embedding-in-pipeline-split).
int most_virtual_stages(const ParallelConfig& config, int layers);

// Layers of each pipeline stage, or of each of the pp·vpp virtual stages: `stages`, or balanced. Where n stages divide
// layers + 2 but not layers, the embedding and the head count as a layer each, as in Llama 3 405B (126 layers, 16
// stages: 7, 8, …, 8, 7; arXiv 2407.21783, 3.3.2). Else the first (layers mod n) stages get one more.
// CHECK: config.stages is empty or sums to `layers`.
std::vector<int> layers_per_stage(const ParallelConfig& config, int layers);

}  // namespace scalai::collection
