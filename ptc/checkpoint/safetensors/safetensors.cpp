#include "ptc/checkpoint/safetensors/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/base/work_done.h"

namespace scalai::checkpoint {
namespace {

absl::Status with_file(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", path, message_of(status)));
}

absl::Status not_safetensors(const std::string& path, const std::string& what) {
  return invalid(fmt::format("{}: not a safetensors file: {}", path, what));
}

using ReadAt = std::function<absl::Status(int64_t offset, std::span<std::byte> dst)>;

absl::StatusOr<SafetensorsHeader> read_header(const std::string& path, int64_t file_bytes, const ReadAt& read_at) {
  if (file_bytes < 8) return not_safetensors(path, fmt::format("it has only {} bytes", file_bytes));
  std::array<std::byte, 8> prefix{};
  SCALAI_RETURN_IF_ERROR(read_at(0, prefix));
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) length |= std::to_integer<uint64_t>(prefix[i]) << (8 * i);
  if (length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    return not_safetensors(path, fmt::format("a header of {} bytes; the format allows {}", length, kMaxHeaderBytes));
  }
  if (static_cast<int64_t>(length) > file_bytes - 8) {
    return not_safetensors(path, fmt::format("a header of {} bytes in a file of {}", length, file_bytes));
  }
  std::string json(static_cast<size_t>(length), '\0');
  SCALAI_RETURN_IF_ERROR(read_at(8, std::as_writable_bytes(std::span(json))));
  absl::StatusOr<SafetensorsHeader> header = parse_safetensors_header(json, file_bytes);
  if (!header.ok()) return with_file(path, header.status());
  return header;
}

}  // namespace

absl::StatusOr<SafetensorsHeader> read_safetensors_header(const ByteSource& source) {
  return read_header(source.name(), source.size(),
                     [&](int64_t offset, std::span<std::byte> dst) { return source.read(offset, dst); });
}

absl::StatusOr<SafetensorsFile::Version> SafetensorsFile::version_of(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return failed(fmt::format("{}: cannot stat: {}", path, std::strerror(errno)));
  if (!S_ISREG(info.st_mode)) return missing(fmt::format("{}: not a file", path));
  return Version{info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  // O_NONBLOCK: a pipe of that name must not hang us; it means nothing for a file.
  file.fd_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd_.get() < 0) return missing(fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  SCALAI_ASSIGN_OR_RETURN(file.version_, version_of(file.fd_.get(), path));
  const auto read = [&](int64_t offset, std::span<std::byte> dst) {
    const absl::Status status = file.read_at(offset, dst);
    return status.ok() ? status : with_file(path, status);
  };
  SCALAI_ASSIGN_OR_RETURN(file.header_, read_header(path, file.version_.bytes, read));
  for (size_t i = 0; i < file.header_.tensors.size(); ++i) file.index_[file.header_.tensors[i].name] = i;
  return file;
}

const StoredTensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

absl::Status SafetensorsFile::read_at(int64_t offset, std::span<std::byte> dst) const {
  while (!dst.empty()) {
    const ssize_t n = ::pread(fd_.get(), dst.data(), dst.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(fmt::format("cannot read at byte {}: {}", offset, std::strerror(errno)));
    if (n == 0)
      return invalid(fmt::format("ends at byte {} of {}: cut short since it was opened", offset, version_.bytes));
    note_work_done();
    dst = dst.subspan(static_cast<size_t>(n));
    offset += n;
  }
  // After the bytes were read, so that a change during the read is seen too.
  SCALAI_ASSIGN_OR_RETURN(const Version now, version_of(fd_.get(), path_));
  if (now != version_) {
    return invalid(fmt::format("changed since it was opened (size {} then, {} now)", version_.bytes, now.bytes));
  }
  return absl::OkStatus();
}

absl::Status SafetensorsFile::read(const StoredTensor& stored, int64_t offset, std::span<std::byte> dst) const {
  const auto size = static_cast<int64_t>(dst.size());
  SCALAI_CHECK(0 <= offset && offset <= stored.bytes && size <= stored.bytes - offset, stored.name);
  const absl::Status status = read_at(stored.offset + offset, dst);
  if (status.ok()) return status;
  return with_file(fmt::format("{}: tensor \"{}\"", path_, clipped(stored.name, 120)), status);
}

absl::StatusOr<std::string> SafetensorsFile::raw_header() const {
  std::string bytes(static_cast<size_t>(header_.data_begin), '\0');
  const absl::Status status = read_at(0, std::as_writable_bytes(std::span(bytes)));
  if (!status.ok()) return with_file(path_, status);
  return bytes;
}

}  // namespace scalai::checkpoint
