#pragma once
// For tests: code on a disk of a few kilobytes. A child process with a mount table of its own mounts a tmpfs there, so
// that nothing is left mounted whatever happens.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace scalai::store {

enum class SmallDisk { kPassed, kFailed, kUnavailable };

namespace small_disk_internal {

inline bool write_whole(const char* path, std::string_view text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  const bool written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) ::close(fd);
  return written;
}

// Root has its own mount table for the asking, others in a user namespace where they are root.
inline bool own_mounts() {
  if (::geteuid() == 0) return ::unshare(CLONE_NEWNS) == 0;
  const std::string uid = fmt::format("0 {} 1", ::geteuid());
  const std::string gid = fmt::format("0 {} 1", ::getegid());
  return ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_whole("/proc/self/uid_map", uid) &&
         write_whole("/proc/self/setgroups", "deny") && write_whole("/proc/self/gid_map", gid);
}

inline bool mount_small(const std::string& folder, int64_t bytes) {
  const std::string options = fmt::format("size={},mode=0777", bytes);
  return own_mounts() && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

}  // namespace small_disk_internal

// `body` runs in the child with the folder; its EXPECTs print there and make the result kFailed. kUnavailable: this
// user may not mount here.
inline SmallDisk on_small_disk(int64_t bytes, const std::function<void(const std::string& folder)>& body) {
  constexpr int kNoMount = 77;
  std::string folder = testing::TempDir() + "scalai-disk-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return SmallDisk::kUnavailable;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!small_disk_internal::mount_small(folder, bytes)) ::_exit(kNoMount);
    body(folder);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::filesystem::remove_all(folder);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoMount) return SmallDisk::kUnavailable;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? SmallDisk::kPassed : SmallDisk::kFailed;
}

}  // namespace scalai::store
