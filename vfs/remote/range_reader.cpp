#include "vfs/remote/range_reader.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::vfs {
namespace {

using Clock = std::chrono::steady_clock;

// Only a strong ETag may stand in If-Range; a date may (RFC 9110, 13.1.5).
std::string if_range_of(const RemoteVersion& version) {
  if (!version.etag.empty() && version.etag.substr(0, 2) != "W/") return version.etag;
  return version.last_modified;
}

std::string described(const RemoteVersion& version) {
  std::string text = fmt::format("{} bytes", version.bytes);
  if (!version.etag.empty()) text += fmt::format(", ETag {}", version.etag);
  if (!version.last_modified.empty()) text += fmt::format(", of {}", version.last_modified);
  return text;
}

absl::Status changed(const std::string& name, const RemoteVersion& before, const std::string& now) {
  return invalid(fmt::format("{}: was changed while in use: it was {}, now {}", name, described(before), now));
}

// Answers that are not a range, nor a whole file. `in_use`: the file was there when it was opened.
absl::Status refused(const std::string& name, const HttpHead& head, bool in_use) {
  const std::string message = fmt::format("{}: the server answered {}", name, head.status);
  if (worth_retrying(head.status)) return absl::UnavailableError(message);
  if (head.status == 404 || head.status == 410) {
    return in_use ? invalid(message + ": the file is gone") : missing(message + ": there is no such file");
  }
  if (head.status == 401 || head.status == 403) {
    return in_use ? failed(message + ": no right to read it any more") : missing(message + ": no right to read it");
  }
  return failed(message);
}

absl::Status check_encoding(const std::string& name, const HttpHead& head) {
  if (head.content_encoding.empty() || head.content_encoding == "identity") return absl::OkStatus();
  return invalid(
      fmt::format("{}: the server sends it as {}, so its ranges are not the file's", name, head.content_encoding));
}

// The answer to a range of a file that is open.
absl::Status check_answer(const std::string& name, const RemoteVersion& version, const HttpRequest& request,
                          const HttpHead& head) {
  const auto differs = [](const std::string& before, const std::string& now) {
    return !before.empty() && !now.empty() && before != now;
  };
  const bool other_version = differs(version.etag, head.etag) || differs(version.last_modified, head.last_modified);
  const std::optional<ContentRange> range = parse_content_range(head.content_range);
  if (head.status == 200 || head.status == 206 || head.status == 416) {
    const int64_t total = head.status == 200 ? head.content_bytes : range ? range->total : -1;
    if (other_version || (total >= 0 && total != version.bytes)) {
      return changed(name, version, described({total, head.etag, head.last_modified}));
    }
  }
  if (head.status == 200) {
    return invalid(
        fmt::format("{}: the server ignores ranges (it answered 200, not 206), or the file was changed", name));
  }
  if (head.status != 206) return refused(name, head, true);
  SCALAI_RETURN_IF_ERROR(check_encoding(name, head));
  // With If-Range the 206 itself says that the file is the same; without, the ETag has to come again.
  if (request.if_range.empty() && !version.etag.empty() && head.etag.empty()) {
    return invalid(fmt::format("{}: the server no longer sends a version", name));
  }
  const int64_t last = request.offset + request.bytes - 1;
  if (!range || range->first != request.offset || range->last > last) {
    return invalid(fmt::format("{}: asked for bytes {}-{}, the server sent \"{}\"", name, request.offset, last,
                               head.content_range));
  }
  return absl::OkStatus();
}

absl::Status check_first(const std::string& name, const HttpHead& head, RemoteVersion& version) {
  if (head.status == 200 && head.content_bytes != 0) {
    return invalid(fmt::format("{}: the server does not know ranges: it answered 200, not 206", name));
  }
  const std::optional<ContentRange> range = parse_content_range(head.content_range);
  const bool empty = head.status == 200 || (head.status == 416 && range && range->total == 0);
  if (head.status != 206 && !empty) return refused(name, head, false);
  SCALAI_RETURN_IF_ERROR(check_encoding(name, head));
  if (!empty && (!range || range->first != 0 || range->last != 0)) {
    return invalid(fmt::format("{}: the server does not tell the size: asked for bytes 0-0, it sent \"{}\"", name,
                               head.content_range));
  }
  constexpr int64_t kMostBytes = int64_t{1} << 60;  // numbers of blocks and ends of reads stay numbers
  if (!empty && range->total > kMostBytes)
    return invalid(fmt::format("{}: the server tells of {} bytes, which no file has", name, range->total));
  version = {empty ? 0 : range->total, head.etag, head.last_modified};
  return absl::OkStatus();
}

struct Attempt {
  HttpOutcome outcome;
  bool progress = false;  // it brought bytes
  bool whole = false;     // the server ended the answer in order, though it is not all that was asked for
};

absl::Status given_up(const HttpOutcome& outcome, std::string why) {
  if (outcome.head.retry_after_s)
    why += fmt::format(", the server asks to wait {}", format_seconds(*outcome.head.retry_after_s));
  return failed(message_of(outcome.status) + why);
}

double seconds_until(Clock::time_point time) { return std::chrono::duration<double>(time - Clock::now()).count(); }

// One request after the other until one succeeds or none is worth while. An attempt gets how long it may take; 0: as
// long as the client lets it.
absl::Status with_retries(const RequestContext& context, const Deadline& deadline,
                          const std::function<Attempt(double)>& attempt) {
  RequestWaits waits(context.retry, context.next_seed++);
  const auto too_late = [&](double wait_s) { return deadline && seconds_until(*deadline) <= wait_s; };
  std::optional<HttpOutcome> refusal;  // the last that the server sent
  for (;;) {
    ++context.counts.requests;
    const auto [outcome, progress, whole] = attempt(deadline ? std::max(seconds_until(*deadline), 0.001) : 0);
    if (outcome.status.code() != absl::StatusCode::kUnavailable) return outcome.status;
    if (progress) waits = RequestWaits(context.retry, context.next_seed++);
    double wait_s = 0;
    if (!progress || !whole) {
      const std::optional<double> wait = waits.next_wait(outcome.head.retry_after_s);
      if (!wait) return given_up(outcome, fmt::format("; tried {} times", waits.attempts()));
      wait_s = *wait;
    }
    if (outcome.head.status >= 400) refusal = outcome;
    if (too_late(wait_s)) {
      // The last attempt may have had too little time for an answer; what the server refused before is the reason.
      return given_up(refusal.value_or(outcome),
                      fmt::format("; a read has at most {}", format_seconds(context.retry.total_s)));
    }
    ++context.counts.retries;
    if (wait_s > 0) context.wait(wait_s);
  }
}

uint64_t seed_of(const RetryPolicy& policy) {
  if (policy.jitter_seed != 0) return policy.jitter_seed;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return static_cast<uint64_t>(now) ^ (static_cast<uint64_t>(::getpid()) << 40);
}

}  // namespace

RequestContext::RequestContext(HttpOptions http, RetryPolicy policy)
    : client(std::move(http)), retry(std::move(policy)), next_seed(seed_of(retry)) {}

Deadline RequestContext::deadline() const {
  if (retry.total_s <= 0) return std::nullopt;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(retry.total_s));
}

void RequestContext::wait(double seconds) const {
  if (retry.sleep) return retry.sleep(seconds);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

absl::StatusOr<RangeReader> RangeReader::open(std::shared_ptr<const RequestContext> context, const std::string& url) {
  RangeReader reader(std::move(context), url);
  HttpRequest request;
  request.url = url;
  request.bytes = 1;
  request.on_head = [&](const HttpHead& head) { return check_first(reader.name_, head, reader.version_); };
  request.on_bytes = [](std::span<const std::byte>) { return absl::OkStatus(); };
  SCALAI_RETURN_IF_ERROR(with_retries(*reader.context_, reader.deadline(), [&](double timeout_s) {
    request.timeout_s = timeout_s;
    return Attempt{.outcome = reader.context_->client.get(request)};
  }));
  return reader;
}

absl::Status RangeReader::read(int64_t offset, std::span<std::byte> dst, Deadline deadline) const {
  SCALAI_CHECK(offset >= 0 && offset <= version_.bytes, name_);
  SCALAI_CHECK(static_cast<int64_t>(dst.size()) <= version_.bytes - offset, name_);
  if (dst.empty()) return absl::OkStatus();
  size_t done = 0;
  HttpRequest request;
  request.url = url_;
  request.if_range = if_range_of(version_);
  request.on_head = [&](const HttpHead& head) { return check_answer(name_, version_, request, head); };
  request.on_bytes = [&](std::span<const std::byte> bytes) {
    if (bytes.size() > dst.size() - done)
      return invalid(fmt::format("{}: the server sends more than asked for", name_));
    std::memcpy(dst.data() + done, bytes.data(), bytes.size());
    done += bytes.size();
    return absl::OkStatus();
  };
  const absl::Status status = with_retries(*context_, deadline, [&](double timeout_s) {
    const size_t before = done;
    request.timeout_s = timeout_s;
    request.offset = offset + static_cast<int64_t>(done);
    request.bytes = static_cast<int64_t>(dst.size() - done);
    HttpOutcome outcome = context_->client.get(request);
    const bool whole = outcome.status.ok();
    const bool all = done == dst.size();  // then a connection that breaks afterwards does no harm
    if (all && outcome.status.code() == absl::StatusCode::kUnavailable) outcome.status = absl::OkStatus();
    if (!all && outcome.status.ok()) {
      outcome.status = absl::UnavailableError(fmt::format("{}: the answer ended at byte {} of {}", name_,
                                                          offset + static_cast<int64_t>(done), version_.bytes));
    }
    return Attempt{std::move(outcome), done > before, whole};
  });
  if (status.ok()) context_->counts.bytes += static_cast<int64_t>(dst.size());
  return status;
}

}  // namespace scalai::vfs
