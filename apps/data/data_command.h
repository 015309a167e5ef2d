#pragma once
// The commands of `scalai data`, and their opener of data files.

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/base/command.h"

namespace scalai::apps {

Command data_index_command();
Command data_show_command();

// Opens local paths, and http(s) addresses if libcurl was present at build time.
absl::StatusOr<SourceOpener> data_opener();

}  // namespace scalai::apps
