#pragma once
// A folder that reshard wrote, by its manifest.json.

#include <string>

#include "absl/status/statusor.h"
#include "ptc/store/views/internal/opened.h"
#include "ptc/store/views/internal/opened_folder.h"

namespace scalai::store::internal {

// manifest_text: of kind "arranged". InvalidArgument: all that is wrong with it, or with the files that it names.
absl::StatusOr<Opened> open_arranged(const Folder& folder, const std::string& manifest_text);

}  // namespace scalai::store::internal
