#pragma once
// Ways to files and folders that are to be written, link by link. In a sticky folder where everybody may make files, as
// /tmp, a link, FIFO or socket that belongs neither to this user nor to the folder's owner is a trap: these functions
// refuse it, wherever it stands on the way. They keep the rules of the kernel's fs.protected_symlinks and
// fs.protected_fifos, which a system may have switched off. Any thread may call.

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/file_descriptor.h"

namespace scalai {

struct Destination {
  // Names in it can be opened (O_PATH). It stays the same folder, whatever becomes of its name.
  FileDescriptor folder;
  std::string name;      // in the folder; need not be there
  std::string path;      // both, for messages
  bool through = false;  // no regular file, or what /proc leads to: it is written to, not replaced
};

// Where `path` leads by way of links. NotFound: no such folder, a folder is there, or too many links. PermissionDenied:
// a link of another user is on the way.
absl::StatusOr<Destination> destination_of(const std::string& path);

// Opens what `place.through` says is there, to write at its end. Errors as of destination_of(), of a stranger's FIFO,
// too.
absl::StatusOr<FileDescriptor> open_destination(const Destination& place);

// False: the entry is a stranger's, in a sticky folder where everybody may make files.
bool may_be_ours(const struct stat& folder, const struct stat& entry);

// The folder, and missing parents, each made durable in its own. `mode` is that of the last folder if it is made, less
// the umask; parents that are made are for all to read. Errors as of destination_of(), and NotFound: it cannot be made.
absl::StatusOr<FileDescriptor> make_folders(const std::string& path, mode_t mode);

}  // namespace scalai
