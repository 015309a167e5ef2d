#pragma once
// The checkpoint side of a mount: views/LAYOUT/FILES. Any layout comes into being when its name is looked up
// (ptc/checkpoint/view.h has the grammar); a name that is none, or that the checkpoint does not fit, is not found, and the
// error says why. Listed are "hf", when the checkpoint can be shown so, and what was asked for so far.
//
// Nothing is read before somebody opens a file, and all readers of a file share its header and table of pieces.

#include <memory>

#include "ptc/checkpoint/checkpoint.h"
#include "vfs/tree.h"

namespace scalai::vfs {

std::shared_ptr<Directory> views_directory(std::shared_ptr<const checkpoint::Checkpoint> checkpoint);

}  // namespace scalai::vfs
