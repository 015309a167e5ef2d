#pragma once
// Whole-file reads and all-or-nothing writes. Any thread may call; a path has one writer at a time.

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/destination.h"

namespace scalai {

// All bytes of the file. NotFound: no such file, a directory, no permission, or larger than `max_bytes`.
absl::StatusOr<std::string> read_file(const std::string& path, int64_t max_bytes = int64_t{1} << 30);
// Makes or replaces the file (see TemporaryFile): after a kill or a loss of power the old or the new one exists, never
// a part of one. A device, a FIFO and what /proc leads to (/dev/stdout) get the bytes as they are. NotFound: a folder,
// or nothing can be made there. PermissionDenied: another user's link or FIFO in a folder as /tmp is in the way
// (destination.h). Errors of writing as TemporaryFile's. The old file is then unchanged.
absl::Status write_file(const std::string& path, std::string_view bytes);
// The same for the user only: a file with mode 0600, whatever the umask and the mode of an old one.
absl::Status write_private_file(const std::string& path, std::string_view bytes);

// A file that is to be at `path`, under another name in its folder until publish(); removed when the object goes before
// that. Its name cannot be foreseen, and no file that is there already is opened. One thread.
class TemporaryFile {
 public:
  // For where `path` leads by way of symbolic links; they stay. With the permissions of the file that it replaces, 0644
  // without one, or if a stranger put it into a folder as /tmp; with just those of `mode` if it is given. NotFound: it
  // cannot be created, or `path` is there and is no regular file. PermissionDenied: as of write_file().
  static absl::StatusOr<TemporaryFile> create(const std::string& path, std::optional<mode_t> mode = std::nullopt);
  ~TemporaryFile();
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;

  int descriptor() const { return fd_; }
  std::string path() const;  // its name until then
  // Bytes at an offset. ResourceExhausted: the disk is full; Aborted: it cannot be written.
  absl::Status write(int64_t offset, std::string_view bytes);
  // Moves it into place once it is on disk, and makes the folder's entry durable. Errors as of write().
  absl::Status publish();

 private:
  TemporaryFile(Destination place, std::string name, int fd)
      : place_(std::move(place)), name_(std::move(name)), fd_(fd) {}
  absl::Status write_error(const std::string& what) const;
  Destination place_;
  std::string name_;
  int fd_ = -1;
};

// The same place from any working folder; links stay as they are written.
std::string absolute_path(const std::string& path);
// Whether `path`, which need not be there, lies in `folder` or is it, links followed.
bool lies_in(const std::string& path, const std::string& folder);
// Creates the folder and its parents, durably; OK if it exists. NotFound: it cannot be created. PermissionDenied:
// another user's link in a folder as /tmp is on the way (destination.h).
absl::Status make_folders(const std::string& path);
// Makes changes of names in the folder of `path` durable. Some network file systems cannot, and say so: no error.
void sync_folder_of(const std::string& path);

}  // namespace scalai
