#pragma once
// Options for facts that a checkpoint does not contain.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/command.h"
#include "ptc/checkpoint/views/checkpoint.h"

namespace scalai::apps {

std::vector<OptionSpec> checkpoint_source_options();  // --from, --names, --config, --model, --families
// For the checkpoint at `path`, which may be the address of a folder or file on a server (http, https, s3). InvalidArgument: an
// address with a user or a query; without libcurl any address.
absl::StatusOr<checkpoint::OpenOptions> open_options_of(const Arguments& arguments, const std::string& path);

// Raises the limit of open files as far as allowed, because a checkpoint of a thousand ranks has as many files.
void raise_open_files();

}  // namespace scalai::apps
