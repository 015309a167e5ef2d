#pragma once
// The interface between a server and the data it shows: directories, files and links, created on demand. A server
// (server.h) calls it from several threads at once, so every implementation must be thread-safe.
//
// A name that was found once stays valid and keeps its meaning, because kernels cache entries. Only the target of a
// link may change.

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"

namespace scalai::vfs {

class File {
 public:
  virtual ~File() = default;
  // Size in bytes, known without opening; equal at each call. An error makes attributes of the file fail
  // (errno_of_read).
  virtual absl::StatusOr<int64_t> size() = 0;
  // The content, size() bytes. The server calls it for each open of a reader and holds the source until the close.
  virtual absl::StatusOr<ByteSourcePtr> open() = 0;
};

class Link {
 public:
  virtual ~Link() = default;
  virtual std::string target() = 0;  // read at each traversal of the link
};

class Directory;
using Node = std::variant<std::shared_ptr<Directory>, std::shared_ptr<File>, std::shared_ptr<Link>>;

enum class Kind { kDirectory, kFile, kLink };
inline Kind kind_of(const Node& node) { return static_cast<Kind>(node.index()); }

struct Entry {
  std::string name;
  Kind kind = Kind::kFile;
};

class Directory {
 public:
  virtual ~Directory() = default;
  // The child of that name, created on demand. The server calls it for each name that the kernel does not hold.
  // NotFound with an empty message: no such name, not logged. Other errors are logged, because they give the reason.
  virtual absl::StatusOr<Node> find(const std::string& name) = 0;
  // Upper bound of the entry numbers of a listing. It may grow between calls; entries may vanish, the others keep their
  // numbers. A listing need not contain every name that find() accepts.
  virtual int64_t entries() = 0;
  // The first number >= `index` with an entry; a value >= entries(): none.
  virtual int64_t listed_from(int64_t index) { return index; }
  virtual Entry entry(int64_t index) = 0;  // index in [0, entries()); an empty name: the entry vanished
  // True: the listing never changes, so the kernel may cache it.
  virtual bool fixed() { return false; }
  // True: find() and size() of the entries are cheap, so a listing may include attributes.
  virtual bool quick() { return false; }
};

}  // namespace scalai::vfs
