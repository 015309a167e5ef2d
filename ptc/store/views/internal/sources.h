#pragma once
// The files that a checkpoint was read from. Each is opened once, so that all that is read of it is of one content, and
// asked at the end. Any thread may call; several may at once.

#include <map>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"

namespace scalai::store::internal {

class Sources {
 public:
  explicit Sources(SourceOpener opener) : opener_(std::move(opener)) {}  // absent: local files

  // Errors are those of the opener.
  absl::StatusOr<ByteSourcePtr> open(const std::string& location);
  // ByteSource::confirm() of all that are open. InvalidArgument: all that have changed, one a line; or the first other
  // error.
  absl::Status confirm() const;
  // Whether all of them have a version, by which another run tells that they are the same.
  bool have_versions() const;

 private:
  const SourceOpener opener_;
  mutable std::mutex mutex_;
  std::map<std::string, ByteSourcePtr> opened_;  // by location
};

}  // namespace scalai::store::internal
