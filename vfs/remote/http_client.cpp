#include "vfs/remote/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::vfs {
namespace {

struct CloseHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using Handle = std::unique_ptr<CURL, CloseHandle>;

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

struct Transfer {
  const HttpRequest* request = nullptr;
  CURL* handle = nullptr;
  HttpHead head;
  bool head_seen = false;
  absl::Status stopped;  // why we ended it ourselves
  char problem[CURL_ERROR_SIZE] = {};
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

bool take_number(std::string_view& text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || text.front() == '-') return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view mark) {
  if (text.substr(0, mark.size()) != mark) return false;
  text.remove_prefix(mark.size());
  return true;
}

void note_header(HttpHead& head, std::string_view line) {
  if (line.substr(0, 5) == "HTTP/") {  // the next answer of a row of redirects
    head = HttpHead{};
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string name = lower(line.substr(0, colon));
  const std::string value(trimmed(line.substr(colon + 1)));
  if (name == "etag") head.etag = value;
  if (name == "last-modified") head.last_modified = value;
  if (name == "content-range") head.content_range = value;
  if (name == "content-encoding") head.content_encoding = lower(value);
}

size_t on_header(char* data, size_t, size_t bytes, void* user) {
  note_header(static_cast<Transfer*>(user)->head, {data, bytes});
  return bytes;
}

void see_head(Transfer& transfer) {
  if (transfer.head_seen) return;
  transfer.head_seen = true;
  long status = 0;
  curl_off_t bytes = -1, retry_after_s = 0;
  curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(transfer.handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &bytes);
  curl_easy_getinfo(transfer.handle, CURLINFO_RETRY_AFTER, &retry_after_s);
  transfer.head.status = static_cast<int>(status);
  transfer.head.content_bytes = bytes;
  if (retry_after_s > 0) transfer.head.retry_after_s = static_cast<double>(retry_after_s);
  transfer.stopped = transfer.request->on_head(transfer.head);
}

size_t on_body(char* data, size_t, size_t bytes, void* user) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  see_head(transfer);
  if (!transfer.stopped.ok()) return 0;  // fewer than came: curl ends the transfer
  transfer.stopped = transfer.request->on_bytes(std::as_bytes(std::span(data, bytes)));
  return transfer.stopped.ok() ? bytes : 0;
}

bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
  }
}

// At least one: 0 is no limit at all for libcurl.
long milliseconds(double seconds) { return std::max(1L, static_cast<long>(seconds * 1000)); }

// Who signs does not follow redirects: a header with a token would go along to another server.
void set_limits(CURL* handle, const HttpOptions& options, double timeout_s, bool encrypted, bool redirects) {
  const double most_s = timeout_s > 0 ? std::min(timeout_s, options.request_timeout_s) : options.request_timeout_s;
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);  // several threads
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(std::min(options.connect_timeout_s, most_s)));
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, milliseconds(most_s));
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(options.stall_timeout_s)));
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, redirects ? 1L : 0L);
  curl_easy_setopt(handle, CURLOPT_MAXREDIRS, static_cast<long>(options.redirects));
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, encrypted ? "https" : "http,https");
#else
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
  curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS, encrypted ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
}

HeaderList headers_of(const HttpRequest& request, const S3Access& s3) {
  curl_slist* list = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (is_s3(request.url) && !s3.key.empty()) {
    list = curl_slist_append(list, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
    if (!s3.session_token.empty())
      list = curl_slist_append(list, fmt::format("x-amz-security-token: {}", s3.session_token).c_str());
  }
  if (!request.if_range.empty()) {
    list = curl_slist_append(list, fmt::format("If-Range: {}", request.if_range).c_str());
  }
  return HeaderList(list);
}

// Signature Version 4, which libcurl makes; before 7.75 it cannot, and would send the secret as it is: then nothing is
// signed. Returns the address.
std::string sign(CURL* handle, const std::string& url, const S3Access& s3) {
  if (!is_s3(url)) return url;
#if LIBCURL_VERSION_NUM >= 0x074b00
  if (!s3.key.empty()) {
    curl_easy_setopt(handle, CURLOPT_AWS_SIGV4, fmt::format("aws:amz:{}:s3", s3.region).c_str());
    curl_easy_setopt(handle, CURLOPT_USERNAME, s3.key.c_str());
    curl_easy_setopt(handle, CURLOPT_PASSWORD, s3.secret.c_str());
  }
#else
  (void)handle;
#endif
  return s3_address(url, s3);
}

absl::Status status_of(const Transfer& transfer, CURLcode code) {
  if (!transfer.stopped.ok()) return transfer.stopped;
  if (code == CURLE_OK) return absl::OkStatus();
  const std::string seen = transfer.problem[0] != '\0' ? transfer.problem : curl_easy_strerror(code);
  const std::string message = fmt::format("{}: {}", display_name(transfer.request->url), seen);
  return may_pass(code) ? absl::UnavailableError(message) : failed(message);
}

bool curl_is_ready() {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;  // once, before the first thread's use
  return ready;
}

}  // namespace

struct HttpClient::Pool {
  Handle take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return Handle(curl_easy_init());
    Handle handle = std::move(idle.back());  // the last one used: its connection is the least likely to be closed
    idle.pop_back();
    return handle;
  }
  void put_back(Handle handle, size_t most) {
    curl_easy_reset(handle.get());  // options go, connections stay
    const std::lock_guard lock(mutex);
    if (idle.size() < most) idle.push_back(std::move(handle));
  }

  std::mutex mutex;
  std::vector<Handle> idle;
};

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)), pool_(std::make_unique<Pool>()) {}
HttpClient::~HttpClient() = default;

HttpOutcome HttpClient::get(const HttpRequest& request) const {
  SCALAI_CHECK(request.offset >= 0 && request.bytes > 0);
  SCALAI_CHECK(curl_is_ready());
  Handle handle = pool_->take();
  SCALAI_CHECK(handle != nullptr);
  Transfer transfer;
  transfer.request = &request;
  transfer.handle = handle.get();
  const std::string range = fmt::format("{}-{}", request.offset, request.offset + request.bytes - 1);
  const HeaderList headers = headers_of(request, options_.s3);
  const std::string address = sign(handle.get(), request.url, options_.s3);
  set_limits(handle.get(), options_, request.timeout_s, lower(address.substr(0, 6)) == "https:", !is_s3(request.url));
  curl_easy_setopt(handle.get(), CURLOPT_URL, address.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_USERAGENT, "scalai");
  curl_easy_setopt(handle.get(), CURLOPT_RANGE, range.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle.get(), CURLOPT_ERRORBUFFER, transfer.problem);
  curl_easy_setopt(handle.get(), CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(handle.get(), CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &transfer);
  const CURLcode code = curl_easy_perform(handle.get());
  if (code == CURLE_OK) see_head(transfer);  // an answer without a body
  const absl::Status status = status_of(transfer, code);
  pool_->put_back(std::move(handle), static_cast<size_t>(options_.idle_handles));
  return {status, transfer.head};
}

std::optional<ContentRange> parse_content_range(const std::string& text) {
  std::string_view rest = text;
  ContentRange range;
  const bool empty = take(rest, "bytes */");  // of a range that cannot be had: the size alone
  if (empty) {
    range.last = -1;
  } else if (!take(rest, "bytes ") || rest.empty() || !take_number(rest, range.first) || !take(rest, "-") ||
             rest.empty() || !take_number(rest, range.last) || !take(rest, "/")) {
    return std::nullopt;
  }
  if (rest.empty() || !take_number(rest, range.total) || !rest.empty()) return std::nullopt;
  if (!empty && (range.last < range.first || range.last >= range.total)) return std::nullopt;
  return range;
}

bool is_remote(const std::string& location) {
  const std::string start = lower(location.substr(0, 8));
  return start == "https://" || start.substr(0, 7) == "http://" || is_s3(location);
}

std::string without_user(const std::string& url) {
  const size_t host = url.find("://");
  if (host == std::string::npos) return url;
  const size_t end = std::min(url.find_first_of("/?#", host + 3), url.size());
  const size_t at = url.rfind('@', end);
  if (at == std::string::npos || at < host + 3 || at >= end) return url;
  return url.substr(0, host + 3) + url.substr(at + 1);
}

std::string display_name(const std::string& url) {
  const std::string plain = without_user(url);
  return plain.substr(0, plain.find_first_of("?#"));
}

}  // namespace scalai::vfs
