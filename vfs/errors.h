#pragma once
// What the kernel is told when something fails. The reason itself goes to the log: an errno cannot name a tensor.

#include "absl/status/status.h"

namespace scalai::vfs {

// Of a name that was looked for: ENOENT, also when the name asks for what cannot be; EACCES: no permission; EIO: the
// source could not be read.
int errno_of_find(const absl::Status& status);
// Of opening, reading and of a size: ENOENT: the source is not there; EACCES; everything else is EIO.
int errno_of_read(const absl::Status& status);

}  // namespace scalai::vfs
