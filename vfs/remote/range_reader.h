#pragma once
// One file on an HTTP(S) server, read by ranges, without a cache. Every answer must have the version of the opening
// (size, ETag, date), so bytes of two versions never mix. Shares ownership of its context. Thread-safe.

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

// Sums over all files of one client.
struct RequestCounts {
  std::atomic<int64_t> requests = 0;  // sent
  std::atomic<int64_t> retries = 0;   // requests after a failed one
  std::atomic<int64_t> bytes = 0;     // of bodies that were used
};

// Time limit of a read; nullopt: none.
using Deadline = std::optional<std::chrono::steady_clock::time_point>;

// Shared by several files: client, retry rules, counters. Thread-safe.
struct RequestContext {
  RequestContext(HttpOptions http, RetryPolicy policy);
  void wait(double seconds) const;
  Deadline deadline() const;  // of a read that starts now

  HttpClient client;
  RetryPolicy retry;
  mutable RequestCounts counts;
  mutable std::atomic<uint64_t> next_seed;
};

// Identity of the content.
struct RemoteVersion {
  int64_t bytes = 0;
  std::string etag;           // as sent by the server; empty: none
  std::string last_modified;  // as sent by the server; empty: none
  friend bool operator==(const RemoteVersion&, const RemoteVersion&) = default;
};

class RangeReader {
 public:
  // Requests the first byte; the answer gives the size and shows support of ranges. Errors name the address. NotFound:
  // no such file, or no permission. InvalidArgument: the server ignores ranges or does not tell the size. Aborted: not
  // reachable, or a server error, after all attempts.
  static absl::StatusOr<RangeReader> open(std::shared_ptr<const RequestContext> context, const std::string& url);

  // These references live as long as the reader.
  const std::string& name() const { return name_; }
  const std::string& url() const { return url_; }
  const RemoteVersion& version() const { return version_; }

  // Reads bytes [offset, offset + dst.size()), which lie inside the file (CHECK), by one request; after a truncated
  // answer the next attempt asks for the rest. An attempt that brought bytes resets the attempt count. InvalidArgument:
  // the file changed. Aborted: all attempts failed, or the deadline passed.
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
