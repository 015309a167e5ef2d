#pragma once
// A folder that reshard wrote, by its manifest.json.

#include <string>

#include "absl/status/statusor.h"
#include "ptc/checkpoint/views/internal/opened.h"
#include "ptc/checkpoint/views/internal/opened_folder.h"

namespace scalai::checkpoint::internal {

// manifest_text: of kind "arranged". InvalidArgument: all that is wrong with it, or with the files that it names.
absl::StatusOr<Opened> open_arranged(const Folder& folder, const std::string& manifest_text);

}  // namespace scalai::checkpoint::internal
