#pragma once
// Error numbers for the kernel. The log gets the reason, because an errno cannot name a tensor. Pure functions.

#include "absl/status/status.h"

namespace scalai::vfs {

// Of a look-up. ENOENT: the name does not exist or asks for something impossible; EACCES: no permission; ENOMEM: out of
// memory; ESTALE: a step of a running job that is no longer kept; EIO: all else, such as an unreadable source.
int errno_of_find(const absl::Status& status);
// Of opens, reads and sizes. ENOENT: the source does not exist; EACCES: no permission; ESTALE: as of a look-up;
// EIO: all else.
int errno_of_read(const absl::Status& status);

}  // namespace scalai::vfs
