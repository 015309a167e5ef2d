#pragma once
// Bytes of known size that can be read anywhere: a local file, ranges of a remote one, or a file that is put together
// while it is read. Immutable as seen by readers: what was changed or cut underneath is an error, never other bytes. Safe
// from several threads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual const std::string& name() const = 0;  // for messages: a path, an address
  virtual int64_t size() const = 0;
  // What tells this content from an earlier or later one of the same name and size, as far as that can be told without
  // reading it. Empty: it cannot.
  virtual std::string version() const { return {}; }
  // Bytes [offset, offset + dst.size()), which lie inside (CHECK). Errors name the source and leave nothing usable in dst.
  // InvalidArgument: what lies underneath was cut or changed, or is damaged; Aborted: the read failed.
  virtual absl::Status read(int64_t offset, std::span<std::byte> dst) const = 0;
};
using ByteSourcePtr = std::shared_ptr<const ByteSource>;

// A regular file, kept open and read by pread. Each read checks afterwards that size and time of modification are those
// of the opening, so bytes of a file that was overwritten meanwhile do not get through. version() also counts device, inode
// and time of change, which no program can set back. NotFound: it cannot be opened, or is no regular file (a pipe is not
// waited for); PermissionDenied: there is no right to.
absl::StatusOr<ByteSourcePtr> open_file_source(const std::string& path);

// Opens what a path or an address names.
using SourceOpener = std::function<absl::StatusOr<ByteSourcePtr>(const std::string& location)>;

// For small files: all of it.
absl::StatusOr<std::string> read_all(const ByteSource& source);

}  // namespace scalai
