#pragma once
// The data files of an index, opened on first use. A file that differs from the indexed one (size, modification time,
// digest of its edges) is refused. At most `most_open` files stay open here; a source that was handed out stays usable
// after it is closed here. Any thread may call; several may call at once.

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
#include "ptc/store/datasets/index.h"

namespace scalai::datasets {

class DataFiles {
 public:
  static constexpr int kMostOpen = 128;
  // Shares ownership of the index. CHECK: index and opener are not null.
  DataFiles(std::shared_ptr<const Index> index, SourceOpener opener, int most_open = kMostOpen);

  const Index& index() const { return *index_; }
  // Data file `file` of the index (CHECK: it exists). NotFound: it cannot be opened. InvalidArgument: it changed since
  // the index was built. Error messages name the file. Errors are not kept; the next call tries again.
  absl::StatusOr<ByteSourcePtr> source(int file) const;
  // Reads the bytes of an extent into dst. CHECK: dst.size() == extent.bytes. Errors: those of source() and of
  // ByteSource::read.
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

// InvalidArgument names every data file outside of the index's folder, after symbolic links and ".." are resolved, and
// every address: an index of somebody else could name any file that its reader may open, or any server in reach.
absl::Status check_inside(const Index& index);

// True for a path, false for an address (with "://").
bool is_local(const std::string& location);
// True for an address with a user or password before the host. An index must not contain one, because others read it.
bool has_user_info(const std::string& location);
// For messages: an address without user, password and query, because the query may be a secret too; a path unchanged.
std::string shown_location(const std::string& location);
// Modification time of a local file in ns since 1970; 0 for an address. NotFound: there is no such file.
absl::StatusOr<int64_t> modified_ns_of(const std::string& location);
// Digest of a file's first and last 64 KiB. Errors are those of ByteSource::read.
absl::StatusOr<std::string> edges_of(const ByteSource& source);

}  // namespace scalai::datasets
