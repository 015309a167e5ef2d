#include "vfs/mounts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "ptc/base/process.h"
#include "ptc/base/status.h"

namespace scalai::vfs {
namespace {

constexpr int kMostLayers = 64;  // of mounts on top of each other that are cleaned at one directory

// Blanks, tabs, newlines and backslashes are written as \ooo.
std::string unescaped(std::string_view text) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) && octal(text[i + 3])) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// ID PARENT MAJOR:MINOR ROOT DIRECTORY OPTIONS [TAG]… - TYPE SOURCE OPTIONS
std::optional<MountPoint> parse_mount(const std::string& line) {
  std::istringstream words(line);
  std::string id, parent, device, root, directory, word;
  words >> id >> parent >> device >> root >> directory;
  while (words >> word && word != "-") continue;
  std::string type;
  if (!(words >> type)) return std::nullopt;
  return MountPoint{unescaped(directory), unescaped(type), device};
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  return real == nullptr ? "" : real.get();
}

// Whoever is not root has no right to unmount; fusermount3 has.
absl::Status run_fusermount(const std::string& directory, bool force) {
  std::vector<std::string> words = {"fusermount3", "-u", "-q"};
  if (force) words.push_back("-z");
  words.insert(words.end(), {"--", directory});
  const absl::StatusOr<pid_t> pid = spawn({.program = "fusermount3", .words = words});
  if (!pid.ok())
    return missing(fmt::format("{}: unmounting needs fusermount3: {}", directory, message_of(pid.status())));
  if (wait_for(*pid) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: fusermount3 could not unmount it: files are open there, or it is not yours", directory));
}

}  // namespace

std::vector<MountPoint> parse_mounts(std::string_view mountinfo) {
  std::vector<MountPoint> mounts;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    if (auto mount = parse_mount(line)) mounts.push_back(std::move(*mount));
  }
  return mounts;
}

std::optional<MountPoint> mount_at(const std::string& directory) {
  std::ostringstream text;
  text << std::ifstream("/proc/self/mountinfo").rdbuf();
  std::optional<MountPoint> found;
  for (MountPoint& mount : parse_mounts(text.str())) {
    if (mount.directory == directory) found = std::move(mount);
  }
  return found;
}

absl::StatusOr<std::string> mount_directory(const std::string& path) {
  if (const std::string real = real_path(path); !real.empty()) return real;
  const int error = errno;
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const size_t slash = trimmed.rfind('/');
  const std::string above = slash == std::string::npos ? "." : slash == 0 ? "/" : trimmed.substr(0, slash);
  const std::string folder = real_path(above);
  const std::string name = slash == std::string::npos ? trimmed : trimmed.substr(slash + 1);
  if (error != ENOTCONN || folder.empty() || name.empty() || name == "." || name == "..") {
    return missing(fmt::format("{}: {}", path, std::strerror(error)));
  }
  return folder == "/" ? "/" + name : folder + "/" + name;
}

bool is_dead(const std::string& directory) {
  struct statvfs facts = {};  // attributes the kernel may still know; this it always asks
  return ::statvfs(directory.c_str(), &facts) != 0 && (errno == ENOTCONN || errno == ECONNABORTED);
}

absl::Status unmount(const std::string& directory, bool force) {
  if (::geteuid() != 0) return run_fusermount(directory, force);
  if (force)
    (void)::umount2(directory.c_str(), UMOUNT_NOFOLLOW | MNT_FORCE);  // ends the connection, whoever waits on it
  const bool dead = force && !mount_at(directory);
  if (dead || ::umount2(directory.c_str(), UMOUNT_NOFOLLOW | (force ? MNT_DETACH : 0)) == 0) return absl::OkStatus();
  if (errno == EBUSY) {
    return absl::FailedPreconditionError(fmt::format("{}: files are open there, or somebody works in it", directory));
  }
  return missing(fmt::format("{}: cannot be unmounted: {}", directory, std::strerror(errno)));
}

absl::StatusOr<int> clean_dead_mounts(const std::string& directory) {
  int cleaned = 0;
  for (; cleaned < kMostLayers && is_dead(directory); ++cleaned) {
    const std::optional<MountPoint> mount = mount_at(directory);
    if (!mount || !mount->ours()) {
      return missing(fmt::format("{}: a dead mount of type {} lies there; unmount it first", directory,
                                 mount ? mount->type : "unknown"));
    }
    SCALAI_RETURN_IF_ERROR(unmount(directory, /*force=*/true));
  }
  return cleaned;
}

bool raise_read_ahead(const MountPoint& mount, int kib) {
  std::ofstream file("/sys/class/bdi/" + mount.device + "/read_ahead_kb");
  file << kib << std::flush;
  return file.good();
}

}  // namespace scalai::vfs
