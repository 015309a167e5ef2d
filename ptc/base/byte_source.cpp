#include "ptc/base/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "ptc/base/status.h"
#include "ptc/base/work_done.h"

namespace scalai {
namespace {

// What a write changes, whatever sets times back afterwards.
struct Version {
  int64_t bytes = 0;
  int64_t modified_s = 0, modified_ns = 0;
  int64_t changed_s = 0, changed_ns = 0;
  friend bool operator==(const Version&, const Version&) = default;
};

Version version_of(const struct stat& status) {
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec};
}

std::string identity_of(const struct stat& status) {
  return fmt::format("{}:{} {} {}.{:09} {}.{:09}", status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

class FileSource final : public ByteSource {
 public:
  FileSource(std::string path, int fd, const struct stat& status)
      : path_(std::move(path)),
        fd_(fd),
        bytes_(status.st_size),
        identity_(identity_of(status)),
        device_(status.st_dev),
        inode_(status.st_ino),
        version_(version_of(status)),
        links_(status.st_nlink) {}
  ~FileSource() override { ::close(fd_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  const std::string& name() const override { return path_; }
  int64_t size() const override { return bytes_; }
  std::string version() const override { return identity_; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override;
  absl::Status confirm() const override;

 private:
  absl::Status check_version() const;

  const std::string path_;
  const int fd_;
  const int64_t bytes_;
  const std::string identity_;
  const dev_t device_;
  const ino_t inode_;
  mutable std::mutex mutex_;  // for what follows
  mutable Version version_;
  mutable nlink_t links_;
};

absl::Status FileSource::check_version() const {
  struct stat now = {};
  if (::fstat(fd_, &now) != 0) return failed(fmt::format("{}: {}", path_, std::strerror(errno)));
  const Version found = version_of(now);
  {
    const std::lock_guard lock(mutex_);
    if (found == version_) return absl::OkStatus();
    if (now.st_nlink != links_) {  // a link was made or removed, which moves the time of change
      version_.changed_s = found.changed_s;
      version_.changed_ns = found.changed_ns;
      links_ = now.st_nlink;
    }
    if (found == version_) return absl::OkStatus();
  }
  if (now.st_size < bytes_) {
    return invalid(fmt::format("{}: was cut to {} of its {} bytes while in use", path_, now.st_size, bytes_));
  }
  return invalid(fmt::format("{}: was changed while in use", path_));
}

// Another file under the name is what others, opened later, may have been read from.
absl::Status FileSource::confirm() const {
  SCALAI_RETURN_IF_ERROR(check_version());
  struct stat now = {};
  const bool is_there = ::stat(path_.c_str(), &now) == 0;
  if (!is_there || (now.st_dev == device_ && now.st_ino == inode_)) return absl::OkStatus();
  return invalid(fmt::format("{}: was replaced by another file while in use", path_));
}

absl::Status FileSource::read(int64_t offset, std::span<std::byte> dst) const {
  SCALAI_CHECK(offset >= 0 && offset <= bytes_, path_);
  SCALAI_CHECK(static_cast<int64_t>(dst.size()) <= bytes_ - offset, path_);
  size_t done = 0;
  while (done < dst.size()) {
    const ssize_t got = ::pread(fd_, dst.data() + done, dst.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(fmt::format("{}: reading at {}: {}", path_, offset, std::strerror(errno)));
    if (got == 0) break;  // shorter than it was
    note_work_done();
    done += static_cast<size_t>(got);
  }
  SCALAI_RETURN_IF_ERROR(check_version());
  return done == dst.size() ? absl::OkStatus() : failed(fmt::format("{}: ended at {}", path_, offset));
}

class TextSource final : public ByteSource {
 public:
  TextSource(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(text_.size()); }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
    SCALAI_CHECK(offset >= 0 && static_cast<int64_t>(dst.size()) <= size() - offset, name_);
    if (!dst.empty()) std::memcpy(dst.data(), text_.data() + offset, dst.size());
    return absl::OkStatus();
  }

 private:
  std::string name_;
  std::string text_;
};

}  // namespace

absl::StatusOr<ByteSourcePtr> open_file_source(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe waits for somebody to write; of regular files it changes nothing.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    const std::string message = fmt::format("{}: {}", path, std::strerror(error));
    return error == EACCES ? absl::PermissionDeniedError(message) : missing(message);
  }
  struct stat status = {};
  const bool known = ::fstat(fd, &status) == 0;
  const int error = errno;
  if (known && S_ISREG(status.st_mode)) return std::make_shared<FileSource>(path, fd, status);
  ::close(fd);
  return missing(fmt::format("{}: {}", path, known ? "is not a regular file" : std::strerror(error)));
}

ByteSourcePtr text_source(std::string name, std::string text) {
  return std::make_shared<TextSource>(std::move(name), std::move(text));
}

absl::StatusOr<std::string> read_all(const ByteSource& source) {
  std::string bytes(static_cast<size_t>(source.size()), '\0');
  SCALAI_RETURN_IF_ERROR(source.read(0, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

}  // namespace scalai
