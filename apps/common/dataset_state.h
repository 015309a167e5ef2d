#pragma once
// The position of a job in a dataset, from the command line: a state as a run or `scalai data show` writes it
// (--state), or a beginning from --global-batch, --seed, --no-shuffle, --drop-last and --sequence.

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/base/command.h"
#include "ptc/store/datasets/samples.h"
#include "ptc/store/datasets/state.h"

namespace scalai::apps {

OptionSpec dataset_state_option();

// The state of --state, a file or the text itself; nullopt: not given. Errors name the option or the file.
absl::StatusOr<std::optional<datasets::State>> said_state(const Arguments& arguments);
// What does not go together with --state; "": nothing.
std::string problem_beside_state(const Arguments& arguments);

// The first state: `said`, if there is one, which has to be of these samples (InvalidArgument: another index, number of
// samples, or sequence); else that of the other options.
absl::StatusOr<datasets::State> first_state(const Arguments& arguments, const std::optional<datasets::State>& said,
                                            const datasets::Samples& samples);

}  // namespace scalai::apps
