#pragma once
// The data files of an index, opened when they are first asked for. A file that is not what was indexed any more (size,
// time of modification, digest of its edges) is refused. At most a given number is kept open;
// what was handed out stays usable. Owns nothing but the open files. Safe from several threads.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/data/index.h"

namespace scalai::data {

class DataFiles {
 public:
  static constexpr int kMostOpen = 128;
  DataFiles(std::shared_ptr<const Index> index, SourceOpener opener, int most_open = kMostOpen);

  const Index& index() const { return *index_; }
  // Data file `file` of the index (CHECK). NotFound: it cannot be opened; InvalidArgument: it was changed since it was
  // indexed. Errors name it; they are not remembered, the next call tries again.
  absl::StatusOr<ByteSourcePtr> source(int file) const;
  // The bytes of an extent; dst.size() == extent.bytes (CHECK). Errors as of source() and of ByteSource::read.
  absl::Status read(const Extent& extent, std::span<std::byte> dst) const;

 private:
  using Recent = std::list<std::pair<int, ByteSourcePtr>>;  // the last used first
  ByteSourcePtr recall(int file) const;
  void remember(int file, const ByteSourcePtr& source) const;

  std::shared_ptr<const Index> index_;
  SourceOpener opener_;
  size_t most_open_;
  mutable std::mutex mutex_;
  mutable Recent recent_;
  mutable std::unordered_map<int, Recent::iterator> by_file_;
};

// A path and not an address.
bool is_local(const std::string& location);
// An address with a user or a password before the host, which an index must not hold: others read it.
bool has_user_info(const std::string& location);
// For messages: an address without user, password, and query, which may be a secret too.
std::string shown_location(const std::string& location);
// When a local file was last written, in ns since 1970; 0 for an address. NotFound: there is no such file.
absl::StatusOr<int64_t> modified_ns_of(const std::string& location);
// Digest of a file's first and last 64 KiB.
absl::StatusOr<std::string> edges_of(const ByteSource& source);

}  // namespace scalai::data
