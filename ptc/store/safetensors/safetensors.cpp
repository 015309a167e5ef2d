#include "ptc/store/safetensors/safetensors.h"

#include <fmt/format.h>

#include <array>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai::store {
namespace {

absl::Status with_file(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", path, message_of(status)));
}

absl::Status not_safetensors(const std::string& path, const std::string& what) {
  return invalid(fmt::format("{}: not a safetensors file: {}", path, what));
}

}  // namespace

absl::StatusOr<SafetensorsHeader> read_safetensors_header(const ByteSource& source) {
  const std::string& path = source.name();
  const int64_t file_bytes = source.size();
  if (file_bytes < 8) return not_safetensors(path, fmt::format("it has only {} bytes", file_bytes));
  std::array<std::byte, 8> prefix{};
  SCALAI_RETURN_IF_ERROR(source.read(0, prefix));
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) length |= std::to_integer<uint64_t>(prefix[i]) << (8 * i);
  if (length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    return not_safetensors(path, fmt::format("a header of {} bytes; the format allows {}", length, kMaxHeaderBytes));
  }
  if (static_cast<int64_t>(length) > file_bytes - 8) {
    return not_safetensors(path, fmt::format("a header of {} bytes in a file of {}", length, file_bytes));
  }
  std::string json(static_cast<size_t>(length), '\0');
  SCALAI_RETURN_IF_ERROR(source.read(8, std::as_writable_bytes(std::span(json))));
  absl::StatusOr<SafetensorsHeader> header = parse_safetensors_header(json, file_bytes);
  if (!header.ok()) return with_file(path, header.status());
  return header;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  SCALAI_ASSIGN_OR_RETURN(file.source_, open_file_source(path));
  SCALAI_ASSIGN_OR_RETURN(file.header_, read_safetensors_header(*file.source_));
  for (size_t i = 0; i < file.header_.tensors.size(); ++i) file.index_[file.header_.tensors[i].name] = i;
  return file;
}

const StoredTensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

absl::Status SafetensorsFile::read(const StoredTensor& stored, int64_t offset, std::span<std::byte> dst) const {
  const auto size = static_cast<int64_t>(dst.size());
  SCALAI_CHECK(0 <= offset && offset <= stored.bytes && size <= stored.bytes - offset, stored.name);
  const absl::Status status = source_->read(stored.offset + offset, dst);
  if (status.ok()) return status;
  return absl::Status(status.code(), fmt::format("{} (tensor \"{}\")", message_of(status), clipped(stored.name, 120)));
}

absl::StatusOr<std::string> SafetensorsFile::raw_header() const {
  std::string bytes(static_cast<size_t>(header_.data_begin), '\0');
  SCALAI_RETURN_IF_ERROR(source_->read(0, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

}  // namespace scalai::store
