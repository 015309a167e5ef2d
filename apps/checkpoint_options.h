#pragma once
// What a command line says of a checkpoint that does not say it itself.

#include <vector>

#include "ptc/base/command.h"
#include "ptc/checkpoint/checkpoint.h"

namespace scalai::apps {

std::vector<OptionSpec> checkpoint_source_options();  // --from, --names, --config, --model, --families
checkpoint::OpenOptions open_options_of(const Arguments& arguments);

// A checkpoint of a thousand ranks has as many files: as many may be open as the system lets this user.
void raise_open_files();

}  // namespace scalai::apps
