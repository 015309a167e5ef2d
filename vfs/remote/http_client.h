#pragma once
// One GET of one range over HTTP(S). libcurl lies behind this and nowhere else. Connections are kept and used again.
// Safe from several threads: each request takes an idle handle or a new one.
//
// Addresses may hold secrets (user:password@, signed queries): messages have display_name() only.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace scalai::vfs {

struct HttpOptions {
  double connect_timeout_s = 10;
  double stall_timeout_s = 30;     // no byte for so long; whole seconds, at least 1
  double request_timeout_s = 300;  // of one request, all of it
  int redirects = 5;               // followed at most; from https only to https
  int idle_handles = 16;           // kept with their connections
};

// "bytes 0-99/1000": first and last byte, and the size of all.
struct ContentRange {
  int64_t first = 0, last = 0, total = 0;
  friend bool operator==(const ContentRange&, const ContentRange&) = default;
};
// Nothing: it is not of this form, or the size of all is not told.
std::optional<ContentRange> parse_content_range(const std::string& text);

// What came before the body, of the last answer when there were redirects.
struct HttpHead {
  int status = 0;
  std::string etag;           // with its quotes, empty: none
  std::string last_modified;  // as it came
  std::string content_range;
  std::string content_encoding;
  int64_t content_bytes = -1;  // Content-Length, -1: not told
  std::optional<double> retry_after_s;
};

struct HttpRequest {
  std::string url;
  int64_t offset = 0, bytes = 0;  // the range; bytes > 0
  std::string if_range;           // an ETag or a date; empty: not sent
  double timeout_s = 0;           // of this one; 0: the client's request_timeout_s, which also bounds it
  // Called once before any of the body; an error ends the request, which then returns it.
  std::function<absl::Status(const HttpHead&)> on_head;
  std::function<absl::Status(std::span<const std::byte>)> on_bytes;
};

struct HttpOutcome {
  // OK: an answer came, of whatever status, and its body to its end (cut bodies of known length are errors). Errors of
  // on_head and on_bytes as they are; else Unavailable: worth another attempt; Aborted: not worth one.
  absl::Status status;
  HttpHead head;
};

class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpOutcome get(const HttpRequest& request) const;

 private:
  struct Pool;
  HttpOptions options_;
  std::unique_ptr<Pool> pool_;
};

// "http://…" or "https://…", in any case.
bool is_remote(const std::string& location);
// Without user, password, query and fragment: for messages.
std::string display_name(const std::string& url);
// Without user and password: for naming what is at an address.
std::string without_user(const std::string& url);

}  // namespace scalai::vfs
