#pragma once
// Tensors of a checkpoint that are not taken. What is known to be no trained state is left out with a note. All else is
// an error, unless the options name it (OpenOptions::drop, drop_optimizer); then the notes say so, and config.json
// fits.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/views/internal/opened.h"

namespace scalai::store::internal {

// Names, with their file in front where there are several.
struct LeftOut {
  std::vector<std::string> ignored;    // known to be no trained state
  std::vector<std::string> optimizer;  // state of an optimizer whose parameters are not known
  std::vector<std::string> others;     // anything else
  std::set<std::string> dropped;       // that the options name
  std::string dropped_layers_key;      // as of FoundState
};
LeftOut left_out_of(const FoundState& state);

// Adds notes and CheckpointInfo::dropped. InvalidArgument: there is state that the options do not name; all of it is
// listed. what, reason: of the optimizer's state, as in "the optimizer's state", "it is in a form before that of 2024".
absl::Status leave_out(const OpenOptions& options, const std::string& place, LeftOut left, Opened& opened,
                       std::string_view what = "the optimizer's state",
                       std::string_view reason = "no name says its parameters");

// InvalidArgument: patterns of OpenOptions::drop that nothing was left out by.
absl::Status check_drop(const OpenOptions& options, const Opened& opened);

}  // namespace scalai::store::internal
