#pragma once
// ByteSource: read-only bytes of known size with random access: a local file, ranges of a remote file, or a file that
// is assembled while it is read. Readers see constant bytes: a change or truncation below is an error, never other
// bytes. Any thread may call; several may read at once.

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
  // For messages: a path or an address. The reference lives as long as the source.
  virtual const std::string& name() const = 0;
  // Bytes.
  virtual int64_t size() const = 0;
  // Identifies this content among contents with the same name and size, without reading it. Empty: such an identity is
  // not available.
  virtual std::string version() const { return {}; }
  // Reads bytes [offset, offset + dst.size()). CHECK: the range lies inside the source. Error messages name the source;
  // after an error the content of dst is undefined. InvalidArgument: the underlying file was truncated, changed or
  // damaged. Aborted: the read failed.
  virtual absl::Status read(int64_t offset, std::span<std::byte> dst) const = 0;
  // Whether all bytes that reads have given are of one content. To be asked after the last read, before something made
  // of them gets its name. May read. Errors are those of read().
  virtual absl::Status confirm() const { return absl::OkStatus(); }
};
using ByteSourcePtr = std::shared_ptr<const ByteSource>;

// Opens a regular file; the source keeps it open and reads with pread. After each read it compares size and the times
// of modification and change with those at opening, so that bytes of an overwritten file are never returned; programs
// cannot set the time of change back. A link that is made or removed also moves it: then the new one counts from there
// on. So a file that is removed can still be read. confirm() is an error if another file has the path now. version()
// also contains device and inode. NotFound: the file cannot be opened, or is not a regular file (a pipe is refused
// without waiting). PermissionDenied: no right to read it.
absl::StatusOr<ByteSourcePtr> open_file_source(const std::string& path);

// These bytes in memory.
ByteSourcePtr text_source(std::string name, std::string text);

// Opens the source at a path or an address.
using SourceOpener = std::function<absl::StatusOr<ByteSourcePtr>(const std::string& location)>;

// All bytes of the source, for small files. Errors are those of read().
absl::StatusOr<std::string> read_all(const ByteSource& source);

}  // namespace scalai
