#include "executor/transport/internal/ucx_asking.h"

#include <fmt/format.h>
#include <ucp/api/ucp.h>

#include <cstring>
#include <utility>
#include <vector>

#include "executor/transport/internal/errors.h"
#include "ptc/base/status.h"
#include "ptc/base/work_done.h"

namespace scalai::executor::transport::internal {
namespace {

// How long a message may take that had begun when its fetch was cancelled.
constexpr auto kGrace = std::chrono::milliseconds(200);

// A chunk that UCX is receiving. With `bounce` it does not lie in one piece at the caller's.
struct Receive {
  UcxAsking* asking;
  FetchPtr fetch;
  int64_t offset = 0;
  int64_t bytes = 0;
  std::unique_ptr<std::byte[]> bounce;
};

void scatter(const Fetch& fetch, int64_t offset, const std::byte* from, int64_t bytes) {
  fetch.into.visit(offset, bytes,
                   [&](int64_t at, std::span<std::byte> part) { std::memcpy(part.data(), from + at, part.size()); });
}

absl::Status error_of(int64_t code, const std::string& text) {
  constexpr auto kFirst = static_cast<int64_t>(absl::StatusCode::kCancelled);
  constexpr auto kLast = static_cast<int64_t>(absl::StatusCode::kUnauthenticated);
  if (code < kFirst || code > kLast) return absl::UnknownError(fmt::format("error {}: {}", code, text));
  return absl::Status(static_cast<absl::StatusCode>(code), text);
}

void finish_receive(std::unique_ptr<Receive> receive, ucs_status_t status) {
  const bool wanted = status == UCS_OK && !receive->fetch->given.has_value();
  if (wanted && receive->bounce) scatter(*receive->fetch, receive->offset, receive->bounce.get(), receive->bytes);
  receive->asking->received(receive->fetch, receive->bytes, status);
}

void on_received(void* request, ucs_status_t status, size_t, void* argument) {
  std::unique_ptr<Receive> receive(static_cast<Receive*>(argument));
  ucp_request_free(request);
  finish_receive(std::move(receive), status);
}

}  // namespace

UcxAsking::UcxAsking(UcxEndpoints& endpoints, ucp_worker* worker, const Self& self)
    : endpoints_(endpoints), worker_(worker), self_(self) {}

absl::Status UcxAsking::connect(HostId peer, const PeerAddress& address) {
  const auto found = peers_.find(peer);
  if (found != peers_.end()) {
    const EndpointPtr before = found->second;
    if (before->lost.empty() && before->address == address.ucx) return absl::OkStatus();
    endpoints_.fail(before, "replaced by another connection");
  }
  const absl::StatusOr<EndpointPtr> endpoint = endpoints_.open(address);
  if (!endpoint.ok()) return unavailable(peer, message_of(endpoint.status()));
  peers_[peer] = *endpoint;
  ask(*endpoint, 0, "");
  return absl::OkStatus();
}

void UcxAsking::start(const FetchPtr& fetch) {
  const auto found = peers_.find(fetch->peer);
  if (found == peers_.end() || found->second == nullptr) {
    fetch->finish(not_connected(fetch->peer));
  } else if (!found->second->lost.empty()) {
    fetch->finish(unavailable(fetch->peer, found->second->lost));
  } else {
    fetch->endpoint = found->second;
    fetch->id = ++last_id_;
    fetches_.emplace(fetch->id, fetch);
    ask(fetch->endpoint, fetch->id, fetch->request);
  }
}

void UcxAsking::ask(const EndpointPtr& endpoint, uint64_t fetch, const std::string& request) {
  const auto body = std::make_shared<const std::string>(self_.address + request);
  UcxMessage message;
  message.id = AskHeader::kId;
  AskHeader header{
      .fetch = fetch, .connection = endpoint->number, .address_bytes = static_cast<int64_t>(self_.address.size())};
  header.tag = tag_of(self_.key, self_.number, endpoint->peer, header, *body);
  message.set_header(header);
  message.body = std::as_bytes(std::span(body->data(), body->size()));
  message.body_owner = body;
  message.eager = true;
  endpoints_.send(endpoint, std::move(message));
}

void UcxAsking::settle(const FetchPtr& fetch, absl::Status status) {
  if (fetch->given.has_value() || fetches_.erase(fetch->id) == 0) return;
  fetch->given = std::move(status);
  if (fetch->receiving == 0) {
    fetch->finish(*fetch->given);
  } else {
    late_.emplace(fetch->id, Late{fetch, std::chrono::steady_clock::now() + kGrace});
  }
}

void UcxAsking::tell_cancelled(const FetchPtr& fetch) {
  const auto body = std::make_shared<const std::string>(self_.address);
  UcxMessage message;
  message.id = CancelHeader::kId;
  CancelHeader header{.fetch = fetch->id};
  header.tag = tag_of(self_.key, self_.number, fetch->endpoint->peer, header, *body);
  message.set_header(header);
  message.body = std::as_bytes(std::span(body->data(), body->size()));
  message.body_owner = body;
  message.eager = true;
  endpoints_.send(fetch->endpoint, std::move(message));
}

void UcxAsking::cancel(const FetchPtr& fetch, absl::Status status) {
  if (!fetches_.contains(fetch->id)) return;
  tell_cancelled(fetch);
  settle(fetch, std::move(status));
}

void UcxAsking::cancel_all(const absl::Status& status) {
  while (!fetches_.empty()) cancel(FetchPtr(fetches_.begin()->second), status);
}

bool UcxAsking::fits(const FetchPtr& fetch, const AnswerHeader& header, int64_t bytes) {
  if (header.total != fetch->into.bytes()) {
    cancel(fetch, wrong_size(fetch->peer, header.total, fetch->into.bytes()));
    return false;
  }
  if (header.offset < 0 || bytes < 0 || header.offset > header.total - bytes) {
    cancel(fetch, absl::InternalError("a chunk outside its answer"));
    return false;
  }
  if (header.total == 0) return true;
  const ChunkSet::Fit fit = fetch->chunks.add(header.offset, bytes);
  if (fit == ChunkSet::Fit::kOverlaps) cancel(fetch, absl::InternalError("a chunk over another one of its answer"));
  return fit == ChunkSet::Fit::kNew;
}

bool UcxAsking::is_of(const Fetch& fetch, const AnswerHeader& header, std::string_view error, int64_t bytes) const {
  return header.bytes == bytes && is_sealed(self_.key, fetch.endpoint->peer, self_.number, header, error);
}

bool UcxAsking::receive(const AnswerHeader& header, void* data, int64_t bytes, bool rendezvous) {
  const auto found = fetches_.find(header.fetch);
  if (found == fetches_.end()) return false;
  const FetchPtr fetch = found->second;
  if (header.code != 0) {
    if (rendezvous) return false;  // errors are sent whole
    const std::string text(static_cast<const char*>(data), static_cast<size_t>(bytes));
    if (is_of(*fetch, header, text, bytes)) settle(fetch, error_of(header.code, text));
    return false;
  }
  if (!is_of(*fetch, header, "", bytes)) return false;
  if (!fits(fetch, header, bytes)) return false;
  if (rendezvous) {
    receive_into(fetch, header, data, bytes);
    return true;
  }
  scatter(*fetch, header.offset, static_cast<const std::byte*>(data), bytes);
  ++fetch->receiving;
  received(fetch, bytes, UCS_OK);
  return false;
}

void UcxAsking::receive_into(const FetchPtr& fetch, const AnswerHeader& header, void* handle, int64_t bytes) {
  auto receive = std::make_unique<Receive>(Receive{this, fetch, header.offset, bytes, nullptr});
  std::byte* into = fetch->into.in_place(header.offset, bytes).data();
  if (into == nullptr) {
    receive->bounce = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
    into = receive->bounce.get();
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = on_received;
  param.user_data = receive.get();
  ++fetch->receiving;
  const ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker_, handle, into, static_cast<size_t>(bytes), &param);
  if (UCS_PTR_IS_PTR(request)) {
    static_cast<void>(receive.release());
  } else {
    finish_receive(std::move(receive), UCS_PTR_RAW_STATUS(request));
  }
}

void UcxAsking::received(const FetchPtr& fetch, int64_t bytes, int status) {
  --fetch->receiving;
  if (fetch->given.has_value()) {
    if (fetch->receiving == 0 && late_.erase(fetch->id) > 0) fetch->finish(*fetch->given);
    return;
  }
  if (status != UCS_OK) {
    settle(fetch, unavailable(fetch->peer, ucs_status_string(static_cast<ucs_status_t>(status))));
    return;
  }
  note_work_done();
  fetch->arrived += bytes;
  if (fetch->arrived == fetch->into.bytes()) settle(fetch, absl::OkStatus());
}

void UcxAsking::lost(const EndpointPtr& endpoint) {
  std::vector<FetchPtr> hit;
  for (const auto& [id, fetch] : fetches_) {
    if (fetch->endpoint == endpoint) hit.push_back(fetch);
  }
  for (const FetchPtr& fetch : hit) settle(fetch, unavailable(fetch->peer, endpoint->lost));
}

void UcxAsking::gone(const EndpointPtr& endpoint) {
  for (auto at = late_.begin(); at != late_.end();) {
    const FetchPtr fetch = at->second.fetch;
    at = fetch->endpoint == endpoint ? late_.erase(at) : std::next(at);
    if (fetch->endpoint == endpoint) fetch->finish(*fetch->given);
  }
}

void UcxAsking::give_up_late(bool all) {
  const auto now = std::chrono::steady_clock::now();
  std::vector<EndpointPtr> stuck;
  for (const auto& [id, late] : late_) {
    if (all || late.until <= now) stuck.push_back(late.fetch->endpoint);
  }
  for (const EndpointPtr& endpoint : stuck) endpoints_.fail(endpoint, "stopped in the middle of a message");
}

std::optional<Deadline> UcxAsking::next_late() const {
  std::optional<Deadline> next;
  for (const auto& [id, late] : late_) {
    if (late.fetch->endpoint->lost.empty() && (!next || late.until < *next)) next = late.until;
  }
  return next;
}

void UcxAsking::abandon() {
  for (const auto& [id, late] : std::exchange(late_, {})) late.fetch->finish(*late.fetch->given);
}

}  // namespace scalai::executor::transport::internal
