#include "ptc/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>

#include "ptc/base/destination.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/status.h"

namespace scalai {
namespace {

absl::Status io_error(std::string_view what, const std::string& path) {
  return missing(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

// Bytes at an offset, or for -1 where the descriptor stands; false with errno.
bool write_all(int fd, std::string_view bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = offset < 0 ? ::write(fd, bytes.data(), bytes.size())
                                 : ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
    if (offset >= 0) offset += n;
  }
  return true;
}

absl::Status write_through(const Destination& place, std::string_view bytes) {
  SCALAI_ASSIGN_OR_RETURN(const FileDescriptor fd, open_destination(place));
  return write_all(fd.get(), bytes, -1) ? absl::OkStatus() : io_error("cannot write", place.path);
}

}  // namespace

void sync_folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const FileDescriptor folder(::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
}

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

absl::StatusOr<TemporaryFile> TemporaryFile::create(const std::string& path, std::optional<mode_t> mode) {
  SCALAI_ASSIGN_OR_RETURN(Destination place, destination_of(path));
  if (place.through) return missing(fmt::format("{}: is no regular file, and only such a one can be replaced", path));
  const int folder = place.folder.get();
  struct stat around {
  }, old{};
  const bool replaces = ::fstat(folder, &around) == 0 &&
                        ::fstatat(folder, place.name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0 &&
                        may_be_ours(around, old);
  if (replaces && !mode) mode = old.st_mode & 0777;
  std::random_device random;
  for (;;) {
    std::string name = fmt::format("{}.{:08x}{:08x}.tmp", place.name, random(), random());
    const int fd =
        ::openat(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode.value_or(0644) & 0644);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return io_error("cannot create", place.path);
    if (mode) (void)::fchmod(fd, *mode);  // where it may not, the new file is what it may be
    return TemporaryFile(std::move(place), std::move(name), fd);
  }
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : place_(std::move(other.place_)), name_(std::move(other.name_)), fd_(std::exchange(other.fd_, -1)) {}

TemporaryFile::~TemporaryFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlinkat(place_.folder.get(), name_.c_str(), 0);
}

std::string TemporaryFile::path() const {
  return place_.path.substr(0, place_.path.size() - place_.name.size()) + name_;
}

absl::Status TemporaryFile::write_error(const std::string& what) const {
  const int error = errno;
  const std::string message = fmt::format("{}: {}: {}", place_.path, what, std::strerror(error));
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return full ? absl::ResourceExhaustedError(message) : failed(message);
}

absl::Status TemporaryFile::write(int64_t offset, std::string_view bytes) {
  return write_all(fd_, bytes, offset) ? absl::OkStatus() : write_error("cannot write");
}

absl::Status TemporaryFile::publish() {
  if (::fsync(fd_) != 0) return write_error("cannot flush");
  const int folder = place_.folder.get();  // the one that was found at the start, whatever its name leads to now
  if (::renameat(folder, name_.c_str(), folder, place_.name.c_str()) != 0) return write_error("cannot replace");
  ::close(std::exchange(fd_, -1));
  const FileDescriptor entries(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries.get() >= 0) ::fsync(entries.get());
  return absl::OkStatus();
}

absl::Status write_file(const std::string& path, std::string_view bytes) {
  SCALAI_ASSIGN_OR_RETURN(const Destination place, destination_of(path));
  if (place.through) return write_through(place, bytes);
  SCALAI_ASSIGN_OR_RETURN(TemporaryFile file, TemporaryFile::create(path));
  SCALAI_RETURN_IF_ERROR(file.write(0, bytes));
  return file.publish();
}

absl::Status write_private_file(const std::string& path, std::string_view bytes) {
  SCALAI_ASSIGN_OR_RETURN(TemporaryFile file, TemporaryFile::create(path, 0600));
  SCALAI_RETURN_IF_ERROR(file.write(0, bytes));
  return file.publish();
}

std::string absolute_path(const std::string& path) {
  std::error_code error;  // nothing is said, or the working folder is gone
  std::filesystem::path whole = std::filesystem::absolute(path, error);
  if (error) whole = path;
  std::string absolute = whole.lexically_normal().string();
  while (absolute.size() > 1 && absolute.ends_with('/')) absolute.pop_back();
  return absolute;
}

bool lies_in(const std::string& path, const std::string& folder) {
  std::error_code error;
  const auto inner = std::filesystem::weakly_canonical(absolute_path(path), error);
  const auto outer = std::filesystem::weakly_canonical(absolute_path(folder), error);
  if (error) return false;
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

absl::Status make_folders(const std::string& path) { return make_folders(path, 0777).status(); }

}  // namespace scalai
