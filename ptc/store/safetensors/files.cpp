#include "ptc/store/safetensors/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "ptc/base/status.h"
#include "ptc/base/work_done.h"
#include "ptc/store/safetensors/checksum.h"

namespace scalai::store {
namespace {

absl::Status write_error(const std::string& what, const std::string& path, int error) {
  const std::string message = fmt::format("{}: {}: {}", path, what, std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) return absl::ResourceExhaustedError(message);
  return failed(message);
}

}  // namespace

absl::StatusOr<OutputFile> OutputFile::create(const std::string& path, int64_t bytes_total) {
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (fd.get() < 0) {
    if (errno == ENOSPC || errno == EDQUOT) return write_error("cannot create", path, errno);
    return missing(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
  }
  OutputFile file(path, std::move(fd));
  // Not every file system can reserve; what it cannot promise now, append() finds out.
  if (bytes_total > 0 && ::fallocate(file.fd_.get(), 0, 0, bytes_total) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    return write_error(fmt::format("no room for {} bytes", bytes_total), path, errno);
  }
  return file;
}

OutputFile::~OutputFile() {
  if (fd_.get() >= 0) ::unlink(path_.c_str());
}

absl::Status OutputFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), std::min(bytes.size(), kMostWritten));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return write_error("cannot write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    bytes_ += n;
    note_work_done();
  }
  return absl::OkStatus();
}

absl::Status OutputFile::finish() {
  // In parts, which count as work done: a slow disk may take hours for all. Where this is not possible, fsync() does
  // it.
  constexpr int64_t kPart = int64_t{64} << 20;
  for (int64_t at = 0; at < bytes_; at += kPart) {
    (void)::sync_file_range(fd_.get(), at, kPart,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    note_work_done();
  }
  if (::fsync(fd_.get()) != 0) return write_error("cannot flush", path_, errno);
  const FileDescriptor closed = std::move(fd_);
  return absl::OkStatus();
}

absl::Status write_synced(const std::string& path, std::string_view bytes) {
  SCALAI_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path, static_cast<int64_t>(bytes.size())));
  SCALAI_RETURN_IF_ERROR(file.append(bytes_of(bytes)));
  return file.finish();
}

absl::Status sync_folder(const std::string& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return missing(fmt::format("{}: cannot open folder: {}", path, std::strerror(errno)));
  // Some network file systems cannot flush folders, and say so.
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != EROFS) return write_error("cannot flush", path, errno);
  return absl::OkStatus();
}

absl::Status make_synced_folders(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return sync_folder(parent_of(path));
  if (errno == ENOENT && parent_of(path) != path) {
    SCALAI_RETURN_IF_ERROR(make_synced_folders(parent_of(path)));
    if (::mkdir(path.c_str(), 0777) == 0) return sync_folder(parent_of(path));
  }
  const int error = errno;
  struct stat info {};
  if (error == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return absl::OkStatus();
  if (error == ENOSPC || error == EDQUOT) return write_error("cannot create folder", path, error);
  return missing(fmt::format("{}: cannot create folder: {}", path, std::strerror(error)));
}

bool is_inside(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string_view::npos) return false;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = end + 1;
  }
  return true;
}

void remove_folder(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

PublishCalls::PublishCalls()
    : exchange([](const char* one, const char* other) {
        return ::renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE);
      }),
      sync(sync_folder) {}

std::string replaced_name(const std::string& folder) {
  const std::string clean = without_trailing_slash(folder);
  return fmt::format("{}/.{}.replaced", parent_of(clean), clean.substr(clean.rfind('/') + 1));  // npos + 1 = 0
}

namespace {

// 0, or −1 and errno. What has the name aside, while another folder has the name itself, was replaced earlier.
int replace_in_two_steps(const std::string& temporary, const std::string& folder) {
  const std::string aside = replaced_name(folder);
  remove_folder(aside);
  if (::rename(folder.c_str(), aside.c_str()) != 0) return -1;
  if (::rename(temporary.c_str(), folder.c_str()) == 0) return 0;
  const int error = errno;
  (void)::rename(aside.c_str(), folder.c_str());
  errno = error;
  return -1;
}

bool cannot_exchange(int error) { return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP; }

}  // namespace

absl::Status publish_folder(const std::string& temporary, const std::string& folder, Existing existing,
                            const PublishCalls& calls) {
  bool exchanged = false;
  int result = ::rename(temporary.c_str(), folder.c_str());
  if (result != 0 && (errno == ENOTEMPTY || errno == EEXIST)) {
    if (existing == Existing::kRefused) return invalid(fmt::format("{}: is there already", folder));
    result = calls.exchange(temporary.c_str(), folder.c_str());
    exchanged = result == 0;
    if (result != 0 && cannot_exchange(errno)) result = replace_in_two_steps(temporary, folder);
  }
  if (result != 0) return write_error(fmt::format("cannot rename to {}", folder), temporary, errno);
  SCALAI_RETURN_IF_ERROR(calls.sync(parent_of(folder)));
  if (exchanged) remove_folder(temporary);
  remove_folder(replaced_name(folder));
  return absl::OkStatus();
}

std::string parent_of(const std::string& path) {
  const std::string clean = without_trailing_slash(path);
  const size_t slash = clean.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : without_trailing_slash(clean.substr(0, slash));
}

std::string without_trailing_slash(const std::string& path) {
  const size_t last = path.find_last_not_of('/');
  return last == std::string::npos ? path.substr(0, 1) : path.substr(0, last + 1);
}

}  // namespace scalai::store
