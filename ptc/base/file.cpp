#include "ptc/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "ptc/base/status.h"

namespace scalai {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::Status io_error(std::string_view what, const std::string& path) {
  return missing(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

absl::Status write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("cannot write", path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return ::fsync(fd) == 0 ? absl::OkStatus() : io_error("cannot flush", path);
}

}  // namespace

absl::StatusOr<std::string> read_file(const std::string& path, int64_t max_bytes) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return io_error("cannot open", path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return io_error("cannot stat", path);
  if (S_ISDIR(info.st_mode)) return missing(fmt::format("{}: is a directory, not a file", path));
  std::string bytes;
  std::string chunk(1 << 16, '\0');
  while (true) {
    const ssize_t n = ::read(fd.get(), chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("cannot read", path);
    if (n == 0) return bytes;
    bytes.append(chunk.data(), static_cast<size_t>(n));
    if (static_cast<int64_t>(bytes.size()) > max_bytes) {
      return missing(fmt::format("{}: larger than the {} bytes allowed here", path, max_bytes));
    }
  }
}

absl::Status write_file(const std::string& path, std::string_view bytes) {
  const std::string temporary = path + ".tmp";
  {
    const FileDescriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (fd.get() < 0) return io_error("cannot create", temporary);
    if (absl::Status status = write_all(fd.get(), bytes, temporary); !status.ok()) {
      ::unlink(temporary.c_str());
      return status;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const absl::Status status = io_error("cannot replace", path);  // before unlink changes errno
    ::unlink(temporary.c_str());
    return status;
  }
  return absl::OkStatus();
}

absl::Status make_folders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return missing(fmt::format("{}: cannot create folder: {}", path, error.message()));
  return absl::OkStatus();
}

}  // namespace scalai
