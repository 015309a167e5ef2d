#pragma once
// What is mounted: directories, files and links that come into being when they are asked for. A server (server.h) walks it
// from several threads at once, so all of it must be safe from several threads.
//
// A name that was found once is found for ever and stays the same thing: kernels keep what they have seen. Only the target
// of a link may change.

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
  // Known without opening, the same at each call. An error makes the file one that cannot be looked at (EIO).
  virtual absl::StatusOr<int64_t> size() = 0;
  // Bytes of that size; each reader that opens the file asks, and holds what it got until it closes.
  virtual absl::StatusOr<ByteSourcePtr> open() = 0;
};

class Link {
 public:
  virtual ~Link() = default;
  virtual std::string target() = 0;  // asked each time that somebody follows the link
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
  // What goes by that name, made now if need be. The caller asks once for each name that the kernel does not hold.
  // NotFound with an empty message: there is nothing; other errors are logged, too, since they say why.
  virtual absl::StatusOr<Node> find(const std::string& name) = 0;
  // What a listing shows, by number. It may grow at its end between calls; entries may go, the others keep their numbers.
  // It need not hold all that can be found.
  virtual int64_t entries() = 0;
  // The first number from `index` on that still has an entry; entries() or more: none.
  virtual int64_t listed_from(int64_t index) { return index; }
  virtual Entry entry(int64_t index) = 0;  // index in [0, entries()); without a name when it is gone
  // The listing never grows, so that kernels may keep it.
  virtual bool fixed() { return false; }
  // Finding an entry and its size costs next to nothing, so a listing may tell attributes along with names.
  virtual bool quick() { return false; }
};

}  // namespace scalai::vfs
