#pragma once
// The mounts of this machine as this process sees them, and those of ours that died: a server that was killed leaves its
// mount behind, where everything fails with ENOTCONN until somebody unmounts it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::vfs {

inline constexpr std::string_view kSubtype = "scalai";  // the kernel shows our mounts as type fuse.scalai

struct MountPoint {
  std::string directory;
  std::string type;    // "ext4", "fuse.scalai"
  std::string device;  // "0:57"
  bool ours() const { return type == "fuse." + std::string(kSubtype); }
  friend bool operator==(const MountPoint&, const MountPoint&) = default;
};

// The lines of /proc/self/mountinfo, in their order: of several at one directory the last one is what is seen. Lines that
// are none are left out.
std::vector<MountPoint> parse_mounts(std::string_view mountinfo);
// What is mounted exactly at the directory, which is absolute, as mount_directory() gives it; the one that is seen.
std::optional<MountPoint> mount_at(const std::string& directory);

// The directory as mount tables write it: absolute and without links, also when what is mounted there is dead. NotFound:
// there is no such directory.
absl::StatusOr<std::string> mount_directory(const std::string& path);
// Its server is gone.
bool is_dead(const std::string& directory);

// Unmounts what is mounted at the directory, as root or by fusermount3. With `force` it goes at once though files in it are
// open; their readers get errors. FailedPrecondition: in use; NotFound: no permission or no fusermount3.
absl::Status unmount(const std::string& directory, bool force);
// Unmounts dead mounts of ours at the directory, however many lie there on top of each other; gives their number.
// NotFound: a dead mount of another file system.
absl::StatusOr<int> clean_dead_mounts(const std::string& directory);

// How far the kernel reads ahead where files are read through its cache. It starts at 128 KiB, and only root can raise it;
// false: it stays as it is.
bool raise_read_ahead(const MountPoint& mount, int kib);

}  // namespace scalai::vfs
