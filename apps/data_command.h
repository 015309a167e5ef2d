#pragma once
// `scalai data`: its two commands, and how they open data files.

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/base/command.h"

namespace scalai::apps {

Command data_index_command();
Command data_show_command();

// Opens paths, and http(s) addresses when libcurl was there at build time.
absl::StatusOr<SourceOpener> data_opener();

}  // namespace scalai::apps
