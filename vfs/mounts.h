#pragma once
// Mounts of this machine as seen by this process, and removal of dead scalai mounts: a killed server leaves its mount
// behind, and every access fails with ENOTCONN until an unmount. Free functions; any thread.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::vfs {

inline constexpr std::string_view kSubtype = "scalai";  // mount tables show scalai mounts as type fuse.scalai

struct MountPoint {
  std::string directory;
  std::string type;    // "ext4", "fuse.scalai"
  std::string device;  // MAJOR:MINOR, as "0:57"
  bool ours() const { return type == "fuse." + std::string(kSubtype); }
  friend bool operator==(const MountPoint&, const MountPoint&) = default;
};

// Mounts in the order of /proc/self/mountinfo; of several at one directory the last one is visible. Skips malformed
// lines.
std::vector<MountPoint> parse_mounts(std::string_view mountinfo);
// The visible mount at exactly this directory, an absolute path as mount_directory() returns it.
std::optional<MountPoint> mount_at(const std::string& directory);

// The path as in mount tables: absolute, symbolic links resolved; works for a dead mount as well. NotFound: no such
// directory.
absl::StatusOr<std::string> mount_directory(const std::string& path);
// True if the server of the mount is gone.
bool is_dead(const std::string& directory);

// Unmounts the directory: directly as root, otherwise by fusermount3. `force` unmounts despite open files; their
// readers get errors. FailedPrecondition: in use, or fusermount3 failed. NotFound: no permission, or no fusermount3.
absl::Status unmount(const std::string& directory, bool force);
// Unmounts dead scalai mounts at the directory, at most 64 on top of each other; returns their number. NotFound: a dead
// mount of another file system.
absl::StatusOr<int> clean_dead_mounts(const std::string& directory);

// Sets the kernel's read-ahead for files read through the page cache; the default is 128 KiB. False: unchanged, because
// only root may raise it.
bool raise_read_ahead(const MountPoint& mount, int kib);

}  // namespace scalai::vfs
