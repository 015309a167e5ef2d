#pragma once
// Options for facts that a checkpoint does not contain.

#include <vector>

#include "ptc/base/command.h"
#include "ptc/checkpoint/views/checkpoint.h"

namespace scalai::apps {

std::vector<OptionSpec> checkpoint_source_options();  // --from, --names, --config, --model, --families
checkpoint::OpenOptions open_options_of(const Arguments& arguments);

// Raises the limit of open files as far as allowed, because a checkpoint of a thousand ranks has as many files.
void raise_open_files();

}  // namespace scalai::apps
