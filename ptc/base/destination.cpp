#include "ptc/base/destination.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <optional>

#include "ptc/base/status.h"

namespace scalai {
namespace {

constexpr int kMostLinks = 40;  // as the kernel

absl::Status io_error(const std::string& path, std::string_view what, int error = errno) {
  return missing(fmt::format("{}: {}: {}", path, what, std::strerror(error)));
}

absl::Status trap(const std::string& path, std::string_view what) {
  return absl::PermissionDeniedError(
      fmt::format("{}: this {} belongs to another user, in a folder where everybody may make files\n"
                  "hint: name another place",
                  path, what));
}

bool is_proc(int folder) {
  struct statfs info {};
  return ::fstatfs(folder, &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

// The folder behind the descriptor of its name, mounted if it is a mount point of an automounter; without openat2 as it
// is.
FileDescriptor entered(int folder, const std::string& name, FileDescriptor entry) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const std::string inside = name + "/.";
  FileDescriptor mounted(static_cast<int>(::syscall(SYS_openat2, folder, inside.c_str(), &how, sizeof how)));
  return mounted.get() >= 0 ? std::move(mounted) : std::move(entry);
}

// Goes component by component. `at_` is the folder reached, `said_` its name for messages.
class Walk {
 public:
  static absl::StatusOr<Walk> from(const std::string& path) {
    Walk walk(path);
    SCALAI_RETURN_IF_ERROR(walk.begin_at(path));
    walk.push(path);
    return walk;
  }

  bool is_over() const { return left_.empty(); }
  bool is_last() const { return left_.size() == 1; }
  const std::string& next() const { return left_.front(); }
  std::string path() const { return said_ + next(); }
  FileDescriptor take() { return std::move(at_); }
  int folder() const { return at_.get(); }

  // What the next component is, itself and not what it leads to; nothing if there is none. NotFound: it cannot be
  // looked at.
  absl::StatusOr<std::optional<struct stat>> look() {
    entry_ = FileDescriptor(::openat(at_.get(), next().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (entry_.get() < 0 && errno == ENOENT) return std::nullopt;
    struct stat info {};
    if (entry_.get() < 0 || ::fstat(entry_.get(), &info) != 0) return io_error(path(), "cannot look at it");
    return info;
  }

  // Enters the component that look() has found, or puts what the link says in its place. False: it is neither.
  absl::StatusOr<bool> go(const struct stat& info) {
    if (S_ISLNK(info.st_mode)) {
      SCALAI_RETURN_IF_ERROR(follow(info));
      return true;
    }
    if (!S_ISDIR(info.st_mode)) return false;
    enter(entered(at_.get(), next(), std::move(entry_)));
    return true;
  }

 private:
  explicit Walk(std::string path) : whole_(std::move(path)) {}

  absl::Status begin_at(const std::string& path) {
    const bool absolute = path.starts_with('/');
    at_ = FileDescriptor(::open(absolute ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (at_.get() < 0) return io_error(whole_, "cannot open the working folder");
    said_ = absolute ? "/" : "";
    return absl::OkStatus();
  }

  void push(std::string_view path) {
    std::deque<std::string> parts;
    while (!path.empty()) {
      const size_t end = std::min(path.find('/'), path.size());
      if (end > 0 && path.substr(0, end) != ".") parts.emplace_back(path.substr(0, end));
      path.remove_prefix(std::min(end + 1, path.size()));
    }
    left_.insert(left_.begin(), parts.begin(), parts.end());
  }

  void enter(FileDescriptor folder) {
    at_ = std::move(folder);
    said_ += next() + "/";
    left_.pop_front();
  }

  absl::Status follow(const struct stat& link) {
    if (is_proc(at_.get())) {  // it leads to what a process has open, by whatever name
      FileDescriptor folder(::openat(at_.get(), next().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (folder.get() < 0) return io_error(path(), "cannot look at it");
      enter(std::move(folder));
      return absl::OkStatus();
    }
    struct stat around {};
    if (::fstat(at_.get(), &around) != 0) return io_error(path(), "cannot look at its folder");
    if (!may_be_ours(around, link)) return trap(path(), "link");
    if (++links_ > kMostLinks) return missing(fmt::format("{}: too many symbolic links", whole_));
    std::array<char, PATH_MAX> target{};
    const ssize_t n = ::readlinkat(entry_.get(), "", target.data(), target.size());
    if (n <= 0) return io_error(path(), "cannot read the link");
    const std::string text(target.data(), static_cast<size_t>(n));
    left_.pop_front();
    if (text.starts_with('/')) SCALAI_RETURN_IF_ERROR(begin_at(text));
    push(text);
    return absl::OkStatus();
  }

  std::string whole_, said_;
  FileDescriptor at_, entry_;
  std::deque<std::string> left_;
  int links_ = 0;
};

// Makes the next component, which is not there. 0, or errno.
int make_next(const Walk& walk, mode_t mode) {
  if (::mkdirat(walk.folder(), walk.next().c_str(), mode) != 0 && errno != EEXIST) return errno;
  const FileDescriptor folder(::openat(walk.folder(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
  return 0;
}

}  // namespace

bool may_be_ours(const struct stat& folder, const struct stat& entry) {
  const bool open_to_all = (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & S_IWOTH) != 0;
  return !open_to_all || entry.st_uid == ::geteuid() || entry.st_uid == folder.st_uid;
}

absl::StatusOr<Destination> destination_of(const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(Walk walk, Walk::from(path));
  while (!walk.is_over()) {
    const std::string at = walk.path();
    SCALAI_ASSIGN_OR_RETURN(const std::optional<struct stat> info, walk.look());
    if (!info && !walk.is_last()) return io_error(path, "cannot create", ENOENT);
    const bool followed = info && S_ISLNK(info->st_mode) && !(walk.is_last() && is_proc(walk.folder()));
    if (info && (followed || S_ISDIR(info->st_mode))) {
      SCALAI_RETURN_IF_ERROR(walk.go(*info).status());
      if (walk.is_over()) return missing(fmt::format("{}: is a directory, not a file", at));
      continue;
    }
    if (!walk.is_last()) return io_error(path, "cannot create", ENOTDIR);
    if (path.ends_with('/')) return io_error(path, "cannot create", info ? ENOTDIR : EISDIR);
    std::string name = walk.next();
    return Destination{walk.take(), std::move(name), at, info && !S_ISREG(info->st_mode)};
  }
  return missing(fmt::format("{}: is a directory, not a file", path));
}

absl::StatusOr<FileDescriptor> open_destination(const Destination& place) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY;
  struct stat folder {
  }, entry{};
  const bool known = ::fstat(place.folder.get(), &folder) == 0 &&
                     ::fstatat(place.folder.get(), place.name.c_str(), &entry, AT_SYMLINK_NOFOLLOW) == 0;
  if (!known) return io_error(place.path, "cannot look at it");
  if (!may_be_ours(folder, entry)) return trap(place.path, S_ISFIFO(entry.st_mode) ? "FIFO" : "file");
  const int follow = is_proc(place.folder.get()) ? 0 : O_NOFOLLOW;
  FileDescriptor fd(::openat(place.folder.get(), place.name.c_str(), kFlags | follow));
  if (fd.get() < 0) return io_error(place.path, "cannot open");
  // Nobody put another one there meanwhile.
  if (follow != 0 && (::fstat(fd.get(), &entry) != 0 || !may_be_ours(folder, entry))) return trap(place.path, "file");
  return fd;
}

absl::StatusOr<FileDescriptor> make_folders(const std::string& path, mode_t mode) {
  const mode_t parents = mode | 0755;  // writable by more users if the last one is
  constexpr std::string_view kCannot = "cannot create folder";
  if (path.empty()) return io_error(path, kCannot, ENOENT);
  SCALAI_ASSIGN_OR_RETURN(Walk walk, Walk::from(path));
  while (!walk.is_over()) {
    SCALAI_ASSIGN_OR_RETURN(std::optional<struct stat> info, walk.look());
    if (!info) {
      if (const int error = make_next(walk, walk.is_last() ? mode : parents); error != 0)
        return io_error(path, kCannot, error);
      SCALAI_ASSIGN_OR_RETURN(info, walk.look());
      if (!info) return io_error(path, kCannot, ENOENT);
    }
    SCALAI_ASSIGN_OR_RETURN(const bool went, walk.go(*info));
    if (!went) return io_error(path, kCannot, ENOTDIR);
  }
  return walk.take();
}

}  // namespace scalai
