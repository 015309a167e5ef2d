#pragma once
// One file on an HTTP(S) server, read by ranges: no cache in here. What it was when opened (size, ETag, date) is
// demanded of every answer, so bytes of two versions of the file never mix. Safe from several threads.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vfs/remote/http_client.h"
#include "vfs/remote/retry.h"

namespace scalai::vfs {

// What is counted over all files of one client.
struct RequestCounts {
  std::atomic<int64_t> requests = 0;  // sent
  std::atomic<int64_t> retries = 0;   // of these, because an earlier one had failed
  std::atomic<int64_t> bytes = 0;     // of bodies that were used
};

// Until when a read may go on; nothing: as long as it takes.
using Deadline = std::optional<std::chrono::steady_clock::time_point>;

// What several files have in common.
struct RequestContext {
  RequestContext(HttpOptions http, RetryPolicy policy);
  void wait(double seconds) const;
  Deadline deadline() const;  // of a read that begins now

  HttpClient client;
  RetryPolicy retry;
  mutable RequestCounts counts;
  mutable std::atomic<uint64_t> next_seed;
};

// Which content of the file it is.
struct RemoteVersion {
  int64_t bytes = 0;
  std::string etag;           // as the server writes it; empty: it gives none
  std::string last_modified;  // likewise
  friend bool operator==(const RemoteVersion&, const RemoteVersion&) = default;
};

class RangeReader {
 public:
  // Asks for the first byte, which tells the size and whether the server knows ranges. Errors name the address.
  // NotFound: there is no such file, or no right to it; InvalidArgument: the server ignores ranges or does not tell the
  // size; Aborted: it cannot be reached, or is not well, after all attempts.
  static absl::StatusOr<RangeReader> open(std::shared_ptr<const RequestContext> context, const std::string& url);

  const std::string& name() const { return name_; }
  const std::string& url() const { return url_; }
  const RemoteVersion& version() const { return version_; }

  // Bytes [offset, offset + dst.size()), inside the file (CHECK), by one request, or more when answers are cut: the
  // next attempt asks for what is missing. Attempts are counted from the last one that brought bytes. InvalidArgument:
  // the file is not what it was; Aborted: all attempts failed, or the deadline has passed.
  absl::Status read(int64_t offset, std::span<std::byte> dst, Deadline deadline) const;
  absl::Status read(int64_t offset, std::span<std::byte> dst) const { return read(offset, dst, context_->deadline()); }
  Deadline deadline() const { return context_->deadline(); }

 private:
  RangeReader(std::shared_ptr<const RequestContext> context, std::string url)
      : context_(std::move(context)), url_(std::move(url)), name_(display_name(url_)) {}

  std::shared_ptr<const RequestContext> context_;
  std::string url_;
  std::string name_;
  RemoteVersion version_;
};

}  // namespace scalai::vfs
