#pragma once
// The checkpoint part of a mount: views/LAYOUT/FILES. A layout is created when its name is looked up (grammar:
// ptc/store/views/view.h). A malformed name, a layout that does not fit the checkpoint, or one beyond the limits
// of README.md is an error with the reason. The listing shows "hf", if the checkpoint has that form, else "logical",
// and the last 32 layouts.
//
// No data is read before a file is opened. All readers of a file share its header and table of pieces. Thread-safe.

#include <memory>

#include "ptc/store/views/checkpoint.h"
#include "vfs/tree.h"

namespace scalai::vfs {

// The directory shares ownership of the checkpoint.
std::shared_ptr<Directory> views_directory(const std::shared_ptr<const store::Checkpoint>& checkpoint);

}  // namespace scalai::vfs
