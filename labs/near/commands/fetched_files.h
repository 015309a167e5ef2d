#pragma once
// Files of other hosts as sources of bytes: each read is a question to the worker of a host that has the file. For the
// little that no host can look at itself. One thread.

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "labs/near/commands/spread_checkpoint.h"
#include "labs/near/session.h"
#include "ptc/base/byte_source.h"

namespace scalai::apps {

class FetchedFiles {
 public:
  // `launch` and the files' checkpoints outlive this.
  FetchedFiles(const std::vector<SpreadFile>& files, size_t hosts, const near::Launch& launch);
  FetchedFiles(const FetchedFiles&) = delete;
  FetchedFiles& operator=(const FetchedFiles&) = delete;

  // As the files. Reads are Aborted where no host gives the bytes, with the reason of each.
  const std::vector<ByteSourcePtr>& sources() const { return sources_; }
  int64_t fetched_bytes() const { return fetched_bytes_; }

 private:
  absl::Status fetch(const SpreadFile& file, int64_t offset, std::span<std::byte> dst);
  absl::Status fetch_from(size_t host, const SpreadFile& file, int64_t offset, std::span<std::byte> dst);

  const near::Launch& launch_;
  std::vector<std::unique_ptr<near::Session>> sessions_;  // by host
  std::vector<absl::Status> gone_;
  std::vector<ByteSourcePtr> sources_;
  int64_t fetched_bytes_ = 0;
};

}  // namespace scalai::apps
