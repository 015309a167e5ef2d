#pragma once
// --transform of commands that move state: the same steps, in the same words.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/command.h"
#include "ptc/state/transform/transform.h"

namespace scalai::apps {

OptionSpec transform_option();  // --transform=STEP, repeated
// InvalidArgument: transform::parse_steps, with the option in front of each line.
absl::StatusOr<std::vector<transform::Step>> parse_transforms(const std::vector<std::string>& texts);

OptionSpec step_backend_option();  // --backend=host|cuda: where the steps are computed

}  // namespace scalai::apps
