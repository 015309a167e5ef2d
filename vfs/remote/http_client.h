#pragma once
// An HTTP(S) client for one GET of one byte range. Owns a pool of libcurl handles, which keep their connections; its
// .cpp is the only file with libcurl. Thread-safe: each request takes an idle handle or creates one.
//
// URLs may contain secrets (user:password@, signed queries): messages contain only display_name().

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "vfs/remote/s3.h"

namespace scalai::vfs {

struct HttpOptions {
  double connect_timeout_s = 10;
  double stall_timeout_s = 30;     // without any byte; whole seconds, at least 1
  double request_timeout_s = 300;  // of a whole request
  int redirects = 5;               // at most; from https only to https
  int idle_handles = 16;           // kept with their connections
  S3Access s3 = S3Access::of_environment();
};

// "bytes 0-99/1000": first byte, last byte, total size. "bytes */1000" gives first 0, last -1.
struct ContentRange {
  int64_t first = 0, last = 0, total = 0;
  friend bool operator==(const ContentRange&, const ContentRange&) = default;
};
// nullopt: another form, or an unknown total size.
std::optional<ContentRange> parse_content_range(const std::string& text);

// The header of the last answer, after redirects.
struct HttpHead {
  int status = 0;
  std::string etag;           // with its quotes; empty: none
  std::string last_modified;  // as sent by the server
  std::string content_range;
  std::string content_encoding;
  int64_t content_bytes = -1;  // Content-Length; -1: unknown
  std::optional<double> retry_after_s;
};

struct HttpRequest {
  std::string url;                // http(s)://… or s3://…
  int64_t offset = 0, bytes = 0;  // the range; bytes > 0 (CHECK)
  std::string if_range;           // an ETag or a date; empty: not sent
  double timeout_s = 0;           // 0: HttpOptions::request_timeout_s, which is also the upper limit
  // Called once, before the body, by the thread of get(). An error ends the request; get() returns it.
  std::function<absl::Status(const HttpHead&)> on_head;
  // Called for each part of the body; the span is valid during the call. An error ends the request.
  std::function<absl::Status(std::span<const std::byte>)> on_bytes;
};

struct HttpOutcome {
  // OK: a complete answer of any HTTP status; a truncated body of known length is an error. Errors of on_head and
  // on_bytes are returned as they are. Otherwise Unavailable: worth a retry; Aborted: not worth one.
  absl::Status status;
  HttpHead head;
};

class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Blocks until the answer is complete. The request must live until then.
  HttpOutcome get(const HttpRequest& request) const;

 private:
  struct Pool;
  HttpOptions options_;
  std::unique_ptr<Pool> pool_;
};

// True for "http://…" and "https://…", in any case, and "s3://…".
bool is_remote(const std::string& location);
// The URL without user, password, query and fragment, for messages.
std::string display_name(const std::string& url);
// The URL without user and password, as an identity of its content.
std::string without_user(const std::string& url);

}  // namespace scalai::vfs
