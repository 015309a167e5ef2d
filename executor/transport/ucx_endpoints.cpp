#include "executor/transport/internal/ucx_endpoints.h"

#include <ucp/api/ucp.h>

#include <algorithm>
#include <utility>

#include "executor/transport/internal/ucx_worker.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport::internal {
namespace {

void on_error(void* argument, ucp_ep_h, ucs_status_t status) {
  auto* endpoint = static_cast<UcxEndpoint*>(argument);
  endpoint->owner->report(endpoint, status);
}

void on_sent(void* request, ucs_status_t status, void* argument) {
  auto* sending = static_cast<UcxEndpoints::Sending*>(argument);
  ucp_request_free(request);
  sending->owner->complete(sending, status);
}

std::vector<ucp_dt_iov_t> list_of(std::span<const std::span<const std::byte>> parts) {
  std::vector<ucp_dt_iov_t> list;
  list.reserve(parts.size());
  for (const std::span<const std::byte> part : parts)
    list.push_back({const_cast<std::byte*>(part.data()), part.size()});
  return list;
}

}  // namespace

UcxEndpoints::UcxEndpoints(ucp_worker* worker, Listener listener) : worker_(worker), listener_(std::move(listener)) {}

absl::StatusOr<EndpointPtr> UcxEndpoints::open(const PeerAddress& peer) {
  if (const auto found = living_.find(peer.ucx); found != living_.end()) return found->second;
  const auto endpoint = std::make_shared<UcxEndpoint>();
  endpoint->address = peer.ucx;
  endpoint->peer = peer.number;
  endpoint->owner = this;
  endpoint->number = ++last_number_;
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(endpoint->address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = endpoint.get();
  const ucs_status_t status = ucp_ep_create(worker_, &params, &endpoint->handle);
  if (status != UCS_OK) return ucx_error("ucp_ep_create", status);
  living_.emplace(peer.ucx, endpoint);
  return endpoint;
}

void UcxEndpoints::send(const EndpointPtr& endpoint, UcxMessage message) {
  auto owned = std::make_unique<Sending>(Sending{this, std::move(message), nullptr});
  Sending* const sending = owned.get();
  sending_.emplace(sending, std::move(owned));
  if (!endpoint->lost.empty()) {
    complete(sending, UCS_ERR_CANCELED);
    return;
  }
  const UcxMessage& raw = sending->message;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = on_sent;
  param.user_data = sending;
  param.flags = raw.eager ? UCP_AM_SEND_FLAG_EAGER : 0;
  const void* body = raw.body.data();
  size_t count = raw.body.size();
  if (!raw.parts.empty()) {
    // UCX reads the list until the message has left.
    const auto list = std::make_shared<std::vector<ucp_dt_iov_t>>(list_of(raw.parts));
    sending->list = list;
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_iov();
    body = list->data();
    count = list->size();
  }
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(endpoint->handle, raw.id, raw.header.data(), raw.header_bytes, body, count, &param);
  if (UCS_PTR_IS_PTR(request)) return;
  const ucs_status_t status = UCS_PTR_RAW_STATUS(request);
  if (status != UCS_OK) report(endpoint.get(), status);
  complete(sending, status);
}

void UcxEndpoints::complete(Sending* sending, int status) {
  const auto found = sending_.find(sending);
  SCALAI_CHECK(found != sending_.end(), "a message was completed twice");
  const std::unique_ptr<Sending> owned = std::move(found->second);
  sending_.erase(found);
  if (owned->message.sent) owned->message.sent(status == UCS_OK);
}

void UcxEndpoints::report(UcxEndpoint* endpoint, int status) { reported_.emplace_back(endpoint, status); }

void UcxEndpoints::fail(const EndpointPtr& endpoint, const std::string& why) {
  begin_close(endpoint, why, /*force=*/true);
}

void UcxEndpoints::begin_close(const EndpointPtr& endpoint, const std::string& why, bool force) {
  if (!endpoint->lost.empty()) return;
  endpoint->lost = why;
  living_.erase(endpoint->address);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint->handle, &param);
  closing_.push_back({endpoint, UCS_PTR_IS_PTR(request) ? request : nullptr});
  listener_.lost(endpoint);
}

void UcxEndpoints::start_flushes() {
  for (const auto& [address, endpoint] : living_) {
    const ucp_request_param_t param{};
    const ucs_status_ptr_t request = ucp_ep_flush_nbx(endpoint->handle, &param);
    if (!UCS_PTR_IS_ERR(request)) flushing_.push_back({endpoint, request});
  }
}

bool UcxEndpoints::in_progress(const Closing& one) {
  return one.request != nullptr && ucp_request_check_status(one.request) == UCS_INPROGRESS;
}

bool UcxEndpoints::flushing() const { return std::any_of(flushing_.begin(), flushing_.end(), in_progress); }

void UcxEndpoints::close_all(const std::string& why) {
  for (const Closing& flush : std::exchange(flushing_, {})) {
    const bool flushed = flush.request == nullptr || ucp_request_check_status(flush.request) == UCS_OK;
    begin_close(flush.endpoint, why, /*force=*/!flushed);
    if (flush.request != nullptr) ucp_request_free(flush.request);
  }
  while (!living_.empty()) fail(EndpointPtr(living_.begin()->second), why);
}

bool UcxEndpoints::poll() {
  bool any = false;
  for (const auto& [raw, status] : std::exchange(reported_, {})) {
    // One that is closing has nothing to report any more, and may be gone.
    const auto alive = std::find_if(living_.begin(), living_.end(),
                                    [raw = raw](const auto& entry) { return entry.second.get() == raw; });
    if (alive == living_.end()) continue;
    fail(EndpointPtr(alive->second), ucs_status_string(static_cast<ucs_status_t>(status)));
    any = true;
  }
  std::vector<Closing> closing = std::exchange(closing_, {});
  for (Closing& one : closing) {
    if (in_progress(one)) {
      closing_.push_back(std::move(one));
      continue;
    }
    if (one.request != nullptr) ucp_request_free(one.request);
    listener_.gone(one.endpoint);
    any = true;
  }
  return any;
}

void UcxEndpoints::abandon() {
  while (!sending_.empty()) complete(sending_.begin()->first, UCS_ERR_CANCELED);
  for (const Closing& one : std::exchange(closing_, {})) listener_.gone(one.endpoint);
}

}  // namespace scalai::executor::transport::internal
