#include "tests/crash/recording.h"

#include <fmt/format.h>

#include <cstring>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::crash {

std::string Operation::str() const {
  switch (kind) {
    case Kind::kMark: return fmt::format("mark \"{}\"", data);
    case Kind::kMakeFile: return fmt::format("create {}", path);
    case Kind::kMakeFolder: return fmt::format("mkdir {}", path);
    case Kind::kWrite: return fmt::format("write {} [{}, {})", path, offset, offset + std::ssize(data));
    case Kind::kResize: return fmt::format("resize {} to {}", path, length);
    case Kind::kSync: return fmt::format("fsync {}", path);
    case Kind::kSyncAll: return "sync";
    case Kind::kRename: return fmt::format("rename {} to {}", path, other);
    case Kind::kExchange: return fmt::format("exchange {} and {}", path, other);
    case Kind::kLink: return fmt::format("link {} as {}", path, other);
    case Kind::kSymlink: return fmt::format("symlink {} to {}", path, data);
    case Kind::kUnlink: return fmt::format("unlink {}", path);
    case Kind::kRemoveFolder: return fmt::format("rmdir {}", path);
    case Kind::kUnknown: return fmt::format("{}: {}", path, data);
  }
  return "";
}

absl::StatusOr<std::vector<Operation>> read_recording(const std::string& file) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(file, int64_t{1} << 33));
  std::vector<Operation> operations;
  const auto part = [&](size_t& at, uint64_t bytes) {
    at += bytes;
    return text.substr(at - bytes, bytes);
  };
  for (size_t at = 0; at < text.size();) {
    RecordHeader header;
    if (text.size() - at < sizeof header) return invalid(fmt::format("{}: cut short", file));
    std::memcpy(&header, text.data() + at, sizeof header);
    at += sizeof header;
    const uint64_t bytes = header.path_bytes + header.other_bytes + header.data_bytes;
    if (header.magic != RecordHeader::kMagic || text.size() - at < bytes)
      return invalid(fmt::format("{}: no recording", file));
    Operation operation{.kind = header.kind,
                        .path = part(at, header.path_bytes),
                        .other = part(at, header.other_bytes),
                        .inode = header.inode,
                        .offset = header.offset,
                        .length = header.length,
                        .data = part(at, header.data_bytes),
                        .process = header.process};
    if (operation.kind == Kind::kUnknown)
      return invalid(fmt::format("{}: {}: this call cannot be replayed", file, operation.str()));
    operations.push_back(std::move(operation));
  }
  return operations;
}

}  // namespace scalai::crash
