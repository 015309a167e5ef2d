// libscalai_recorder.so, for LD_PRELOAD: stands in for the C library's functions that change files, and records those
// calls that concern the folder $SCALAI_RECORD_ROOT in $SCALAI_RECORD_LOG. Each function makes its system call itself.
// A lock of the log, taken for the call and its record, gives all threads and processes one order.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/crash/record_format.h"

namespace {

using scalai::crash::Kind;
using scalai::crash::RecordHeader;

const std::string& variable(const char* name) {
  static const std::string root = [] {
    const char* value = std::getenv(scalai::crash::kRootVariable);
    return std::string(value == nullptr ? "" : value);
  }();
  static const std::string log = [] {
    const char* value = std::getenv(scalai::crash::kLogVariable);
    return std::string(value == nullptr ? "" : value);
  }();
  return name == scalai::crash::kRootVariable ? root : log;
}

std::string link_of(int fd) {
  std::array<char, PATH_MAX> bytes{};
  const std::string name = "/proc/self/fd/" + std::to_string(fd);
  const long n = ::syscall(SYS_readlinkat, AT_FDCWD, name.c_str(), bytes.data(), bytes.size());
  std::string path(bytes.data(), n > 0 ? static_cast<size_t>(n) : 0);
  constexpr std::string_view kGone = " (deleted)";
  if (path.ends_with(kGone)) path.resize(path.size() - kGone.size());
  return path;
}

// Relative to the root, "." for itself; empty: elsewhere.
std::string below_root(const std::string& path) {
  const std::string& root = variable(scalai::crash::kRootVariable);
  if (root.empty() || !path.starts_with(root)) return "";
  if (path.size() == root.size()) return ".";
  return path[root.size()] == '/' ? path.substr(root.size() + 1) : "";
}

std::string place_of(int fd) {
  if (fd < 0 || variable(scalai::crash::kRootVariable).empty()) return "";
  const int saved = errno;
  std::string place = below_root(link_of(fd));
  errno = saved;
  return place;
}

// Of a name that need not exist: its folder's links are followed, its own are not.
std::string place_of(int at, const char* path) {
  if (path == nullptr || variable(scalai::crash::kRootVariable).empty()) return "";
  const int saved = errno;
  std::string text = path;
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  const size_t slash = text.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : text.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? text : text.substr(slash + 1);
  const auto fd = static_cast<int>(::syscall(SYS_openat, at, folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC, 0));
  std::string place;
  if (fd >= 0) {
    place = below_root(link_of(fd) + "/" + name);
    ::syscall(SYS_close, fd);
  }
  errno = saved;
  return place;
}

struct Status {
  bool there = false;
  uint64_t inode = 0;
  int64_t size = 0;
};
Status status_of(int at, const char* path, int flags) {
  struct stat info {};
  const int saved = errno;
  const bool there = ::fstatat(at, path, &info, flags) == 0;
  errno = saved;
  return {there, info.st_ino, info.st_size};
}
Status status_of(int fd) { return status_of(fd, "", AT_EMPTY_PATH); }

// From before a call to after its record.
class Section {
 public:
  Section() {
    const std::string& log = variable(scalai::crash::kLogVariable);
    fd_ =
        static_cast<int>(::syscall(SYS_openat, AT_FDCWD, log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Section() {
    const int saved = errno;
    ::syscall(SYS_close, fd_);
    errno = saved;
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  void record(Kind kind, const std::string& path, RecordHeader header = {}, std::string_view data = {},
              const std::string& other = "") const {
    const int saved = errno;
    header.kind = kind;
    header.path_bytes = static_cast<uint32_t>(path.size());
    header.other_bytes = static_cast<uint32_t>(other.size());
    header.data_bytes = data.size();
    header.process = static_cast<uint32_t>(::syscall(SYS_getpid));
    std::string text(reinterpret_cast<const char*>(&header), sizeof header);
    text.append(path).append(other).append(data);
    for (size_t at = 0; at < text.size();) {
      const long n = ::syscall(SYS_write, fd_, text.data() + at, text.size() - at);
      if (n <= 0) std::abort();  // half a recording proves nothing
      at += static_cast<size_t>(n);
    }
    errno = saved;
  }

 private:
  int fd_;
};

void record_unknown(const std::string& path, std::string_view call) {
  const Section section;
  section.record(Kind::kUnknown, path, {}, call);
}

int open_at(int at, const char* path, int flags, mode_t mode) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_openat, at, path, flags, mode)); };
  if ((flags & (O_CREAT | O_TRUNC)) == 0 && (flags & O_TMPFILE) != O_TMPFILE) return call();
  const std::string place = place_of(at, path);
  if (place.empty()) return call();
  if ((flags & O_TMPFILE) == O_TMPFILE) {
    record_unknown(place, "open of a file without a name");
    return call();
  }
  const Section section;
  const Status before = status_of(at, path, 0);
  const int fd = call();
  if (fd < 0) return fd;
  const uint64_t inode = status_of(fd).inode;
  if (!before.there) {
    section.record(Kind::kMakeFile, place, {.inode = inode});
  } else if ((flags & O_TRUNC) != 0 && before.size > 0) {
    section.record(Kind::kResize, place, {.inode = inode});
  }
  return fd;
}

// What a call put at an offset, read back if it is not known.
void record_written(const Section& section, const std::string& place, int fd, int64_t offset, int64_t bytes,
                    const char* data) {
  std::string read;
  if (data == nullptr) {
    const int saved = errno;
    const std::string name = "/proc/self/fd/" + std::to_string(fd);
    const auto again = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, name.c_str(), O_RDONLY | O_CLOEXEC, 0));
    read.resize(static_cast<size_t>(bytes));
    if (again < 0 || ::syscall(SYS_pread64, again, read.data(), read.size(), offset) != bytes) std::abort();
    ::syscall(SYS_close, again);
    errno = saved;
    data = read.data();
  }
  section.record(Kind::kWrite, place, {.inode = status_of(fd).inode, .offset = offset},
                 {data, static_cast<size_t>(bytes)});
}

// A call that writes at `offset`, or for −1 where the descriptor stands.
template <typename Call>
ssize_t writing(int fd, int64_t offset, const char* data, const Call& call) {
  const std::string place = place_of(fd);
  if (place.empty()) return call();
  const Section section;
  const ssize_t n = call();
  if (n <= 0) return n;
  const int saved = errno;
  int64_t at = offset;
  if (offset < 0) {
    at = ::syscall(SYS_lseek, fd, 0, SEEK_CUR) - n;
  } else if ((::syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND) != 0) {
    at = status_of(fd).size - n;
  }
  errno = saved;
  record_written(section, place, fd, at, n, data);
  return n;
}

int resizing(int fd, int64_t length) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_ftruncate, fd, length)); };
  const std::string place = place_of(fd);
  if (place.empty()) return call();
  const Section section;
  const Status before = status_of(fd);
  const int result = call();
  if (result == 0 && before.size != length)
    section.record(Kind::kResize, place, {.inode = before.inode, .length = length});
  return result;
}

int reserving(int fd, int mode, int64_t offset, int64_t length) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, length)); };
  const std::string place = place_of(fd);
  if (place.empty()) return call();
  if ((mode & ~FALLOC_FL_KEEP_SIZE) != 0) record_unknown(place, "fallocate with a mode");
  const Section section;
  const Status before = status_of(fd);
  const int result = call();
  if (result == 0 && mode == 0 && offset + length > before.size)
    section.record(Kind::kResize, place, {.inode = before.inode, .length = offset + length});
  return result;
}

int syncing(int fd, long number) {
  const auto call = [&] { return static_cast<int>(::syscall(number, fd)); };
  const std::string place = place_of(fd);
  if (place.empty()) return call();
  const Section section;
  const int result = call();
  if (result == 0)
    section.record(number == SYS_syncfs ? Kind::kSyncAll : Kind::kSync, place, {.inode = status_of(fd).inode});
  return result;
}

int renaming(int at, const char* from, int other_at, const char* to, unsigned flags) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_renameat2, at, from, other_at, to, flags)); };
  const std::string old_place = place_of(at, from);
  const std::string new_place = place_of(other_at, to);
  if (old_place.empty() && new_place.empty()) return call();
  if (old_place.empty() != new_place.empty()) record_unknown(old_place + new_place, "a rename across the root");
  const Section section;
  const int result = call();
  if (result == 0)
    section.record((flags & RENAME_EXCHANGE) != 0 ? Kind::kExchange : Kind::kRename, old_place, {}, {}, new_place);
  return result;
}

int unlinking(int at, const char* path, int flags) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_unlinkat, at, path, flags)); };
  const std::string place = place_of(at, path);
  if (place.empty()) return call();
  const Section section;
  const int result = call();
  if (result == 0) section.record((flags & AT_REMOVEDIR) != 0 ? Kind::kRemoveFolder : Kind::kUnlink, place);
  return result;
}

int making_folder(int at, const char* path, mode_t mode) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_mkdirat, at, path, mode)); };
  const std::string place = place_of(at, path);
  if (place.empty()) return call();
  const Section section;
  const int result = call();
  if (result == 0) section.record(Kind::kMakeFolder, place, {.inode = status_of(at, path, AT_SYMLINK_NOFOLLOW).inode});
  return result;
}

int linking(int at, const char* from, int other_at, const char* to, int flags) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_linkat, at, from, other_at, to, flags)); };
  const std::string old_place = place_of(at, from);
  const std::string new_place = place_of(other_at, to);
  if (new_place.empty()) return call();
  if (old_place.empty()) record_unknown(new_place, "a link from elsewhere");
  const Section section;
  const int result = call();
  if (result == 0) section.record(Kind::kLink, old_place, {}, {}, new_place);
  return result;
}

int making_link(const char* target, int at, const char* path) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_symlinkat, target, at, path)); };
  const std::string place = place_of(at, path);
  if (place.empty()) return call();
  const Section section;
  const int result = call();
  if (result == 0)
    section.record(Kind::kSymlink, place, {.inode = status_of(at, path, AT_SYMLINK_NOFOLLOW).inode}, target);
  return result;
}

// A write through a shared mapping is invisible here. SQLite's -shm file is volatile: it is rebuilt after a crash.
void* mapping(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  const std::string place = place_of(fd);
  if (!place.empty() && (flags & MAP_SHARED) != 0 && (protection & PROT_WRITE) != 0 && !place.ends_with("-shm"))
    record_unknown(place, "a shared mapping for writing");
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}

// fopen opens inside the C library: what it made or emptied shows before and after. Streams of <cstdio> write inside
// it, too; the recorded operations would then not give the folder, and that is checked.
template <typename Call>
FILE* opening(const char* path, const char* mode, const Call& call) {
  const std::string place = mode != nullptr && (mode[0] == 'w' || mode[0] == 'a') ? place_of(AT_FDCWD, path) : "";
  if (place.empty()) return call();
  const Section section;
  const Status before = status_of(AT_FDCWD, path, 0);
  FILE* file = call();
  if (file == nullptr) return file;
  const uint64_t inode = status_of(::fileno(file)).inode;
  if (!before.there) {
    section.record(Kind::kMakeFile, place, {.inode = inode});
  } else if (mode[0] == 'w' && before.size > 0) {
    section.record(Kind::kResize, place, {.inode = inode});
  }
  return file;
}

ssize_t write_lists(int fd, const iovec* parts, int count, int64_t offset) {
  std::string data;
  for (int i = 0; i < count; ++i) data.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return writing(fd, offset, data.data(), [&]() -> ssize_t {
    if (offset < 0) return ::syscall(SYS_writev, fd, parts, count);
    return ::syscall(SYS_pwritev, fd, parts, count, offset, int64_t{0});
  });
}

mode_t mode_of(int flags, va_list list) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0; }

}  // namespace

#define SCALAI_MODE                         \
  va_list list;                             \
  va_start(list, flags);                    \
  const mode_t mode = mode_of(flags, list); \
  va_end(list)

extern "C" {

void scalai_record_mark(const char* text) {
  if (variable(scalai::crash::kLogVariable).empty()) return;
  const Section section;
  section.record(Kind::kMark, "", {}, text);
}

int open(const char* path, int flags, ...) {
  SCALAI_MODE;
  return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  SCALAI_MODE;
  return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int at, const char* path, int flags, ...) {
  SCALAI_MODE;
  return open_at(at, path, flags, mode);
}
int openat64(int at, const char* path, int flags, ...) {
  SCALAI_MODE;
  return open_at(at, path, flags, mode);
}
int __open_2(const char* path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __open64_2(const char* path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __openat_2(int at, const char* path, int flags) { return open_at(at, path, flags, 0); }
int __openat64_2(int at, const char* path, int flags) { return open_at(at, path, flags, 0); }
int creat(const char* path, mode_t mode) { return open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode); }
int creat64(const char* path, mode_t mode) { return open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode); }

FILE* fopen(const char* path, const char* mode) {
  static const auto next = reinterpret_cast<decltype(&::fopen)>(::dlsym(RTLD_NEXT, "fopen"));
  return opening(path, mode, [&] { return next(path, mode); });
}
FILE* fopen64(const char* path, const char* mode) {
  static const auto next = reinterpret_cast<decltype(&::fopen64)>(::dlsym(RTLD_NEXT, "fopen64"));
  return opening(path, mode, [&] { return next(path, mode); });
}

ssize_t write(int fd, const void* data, size_t bytes) {
  return writing(fd, -1, static_cast<const char*>(data), [&] { return ::syscall(SYS_write, fd, data, bytes); });
}
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return writing(fd, offset, static_cast<const char*>(data),
                 [&] { return ::syscall(SYS_pwrite64, fd, data, bytes, offset); });
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  return writing(fd, offset, static_cast<const char*>(data),
                 [&] { return ::syscall(SYS_pwrite64, fd, data, bytes, offset); });
}
ssize_t writev(int fd, const iovec* parts, int count) { return write_lists(fd, parts, count, -1); }
ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) { return write_lists(fd, parts, count, offset); }
ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t offset) {
  return write_lists(fd, parts, count, offset);
}
ssize_t pwritev2(int fd, const iovec* parts, int count, off_t offset, int) {
  return write_lists(fd, parts, count, offset);
}
ssize_t pwritev64v2(int fd, const iovec* parts, int count, off64_t offset, int) {
  return write_lists(fd, parts, count, offset);
}
ssize_t copy_file_range(int in, off64_t* in_at, int out, off64_t* out_at, size_t bytes, unsigned flags) {
  const int64_t offset = out_at == nullptr ? -1 : *out_at;
  return writing(out, offset, nullptr,
                 [&] { return ::syscall(SYS_copy_file_range, in, in_at, out, out_at, bytes, flags); });
}
ssize_t sendfile(int out, int in, off_t* offset, size_t bytes) {
  return writing(out, -1, nullptr, [&] { return ::syscall(SYS_sendfile, out, in, offset, bytes); });
}
ssize_t sendfile64(int out, int in, off64_t* offset, size_t bytes) {
  return writing(out, -1, nullptr, [&] { return ::syscall(SYS_sendfile, out, in, offset, bytes); });
}

int ftruncate(int fd, off_t length) noexcept { return resizing(fd, length); }
int ftruncate64(int fd, off64_t length) noexcept { return resizing(fd, length); }
int truncate(const char* path, off_t length) noexcept {
  const int fd = open_at(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int result = resizing(fd, length);
  const int saved = errno;
  ::syscall(SYS_close, fd);
  errno = saved;
  return result;
}
int truncate64(const char* path, off64_t length) noexcept { return truncate(path, length); }
int fallocate(int fd, int mode, off_t offset, off_t length) { return reserving(fd, mode, offset, length); }
int fallocate64(int fd, int mode, off64_t offset, off64_t length) { return reserving(fd, mode, offset, length); }
int posix_fallocate(int fd, off_t offset, off_t length) { return reserving(fd, 0, offset, length) == 0 ? 0 : errno; }
int posix_fallocate64(int fd, off64_t offset, off64_t length) {
  return reserving(fd, 0, offset, length) == 0 ? 0 : errno;
}

int fsync(int fd) { return syncing(fd, SYS_fsync); }
int fdatasync(int fd) { return syncing(fd, SYS_fdatasync); }
int syncfs(int fd) noexcept { return syncing(fd, SYS_syncfs); }
void sync() noexcept {
  const Section section;
  ::syscall(SYS_sync);
  section.record(Kind::kSyncAll, ".");
}

int rename(const char* from, const char* to) noexcept { return renaming(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int at, const char* from, int other_at, const char* to) noexcept {
  return renaming(at, from, other_at, to, 0);
}
int renameat2(int at, const char* from, int other_at, const char* to, unsigned flags) noexcept {
  return renaming(at, from, other_at, to, flags);
}
int link(const char* from, const char* to) noexcept { return linking(AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int at, const char* from, int other_at, const char* to, int flags) noexcept {
  return linking(at, from, other_at, to, flags);
}
int symlink(const char* target, const char* path) noexcept { return making_link(target, AT_FDCWD, path); }
int symlinkat(const char* target, int at, const char* path) noexcept { return making_link(target, at, path); }
int unlink(const char* path) noexcept { return unlinking(AT_FDCWD, path, 0); }
int unlinkat(int at, const char* path, int flags) noexcept { return unlinking(at, path, flags); }
int rmdir(const char* path) noexcept { return unlinking(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) noexcept {
  const int result = unlinking(AT_FDCWD, path, 0);
  return result != 0 && (errno == EISDIR || errno == EPERM) ? unlinking(AT_FDCWD, path, AT_REMOVEDIR) : result;
}
int mkdir(const char* path, mode_t mode) noexcept { return making_folder(AT_FDCWD, path, mode); }
int mkdirat(int at, const char* path, mode_t mode) noexcept { return making_folder(at, path, mode); }

void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  return mapping(address, length, protection, flags, fd, offset);
}
void* mmap64(void* address, size_t length, int protection, int flags, int fd, off64_t offset) noexcept {
  return mapping(address, length, protection, flags, fd, offset);
}

}  // extern "C"
