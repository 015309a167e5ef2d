#pragma once
// The asking end: fetches under way, their requests and what arrives for them. Of the transport thread.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "executor/transport/internal/fetch.h"
#include "executor/transport/internal/ucx_endpoints.h"
#include "executor/transport/internal/wire.h"

namespace scalai::executor::transport::internal {

using FetchPtr = std::shared_ptr<Fetch>;

class UcxAsking {
 public:
  // `self` outlives this.
  UcxAsking(UcxEndpoints& endpoints, ucp_worker* worker, const Self& self);

  // As PeerTransport says.
  absl::Status connect(HostId peer, const PeerAddress& address);
  void start(const FetchPtr& fetch);
  // Ends the fetch with `status` unless it has ended. The caller is let go as soon as UCX writes no more for it; where
  // that takes longer than a moment, the connection is given up.
  void cancel(const FetchPtr& fetch, absl::Status status);
  void cancel_all(const absl::Status& status);

  // A message, maybe of the peer: one without the right tag is nothing, and a chunk that came before is left out.
  // `data` is the body, or with `rendezvous` UCX's handle of a body that is still there. Returns whether the handle was
  // taken.
  bool receive(const AnswerHeader& header, void* data, int64_t bytes, bool rendezvous);
  void received(const FetchPtr& fetch, int64_t bytes, int status);

  void lost(const EndpointPtr& endpoint);
  void gone(const EndpointPtr& endpoint);
  // Gives up connections that keep cancelled fetches waiting, too long or, with `all`, at all.
  void give_up_late(bool all = false);
  // When give_up_late() has something to do next.
  std::optional<Deadline> next_late() const;
  // Nothing is written any more: lets go of all callers that still wait.
  void abandon();

 private:
  struct Late {
    FetchPtr fetch;
    Deadline until;
  };
  void ask(const EndpointPtr& endpoint, uint64_t fetch, const std::string& request);
  void settle(const FetchPtr& fetch, absl::Status status);
  void tell_cancelled(const FetchPtr& fetch);
  // Whether the message is of the end that was asked. `error`: the text of an error.
  bool is_of(const Fetch& fetch, const AnswerHeader& header, std::string_view error, int64_t bytes) const;
  bool fits(const FetchPtr& fetch, const AnswerHeader& header, int64_t bytes);
  void receive_into(const FetchPtr& fetch, const AnswerHeader& header, void* handle, int64_t bytes);

  UcxEndpoints& endpoints_;
  ucp_worker* const worker_;
  const Self& self_;
  std::map<HostId, EndpointPtr> peers_;
  std::unordered_map<uint64_t, FetchPtr> fetches_;  // that have not ended
  std::map<uint64_t, Late> late_;                   // that have ended, and that UCX may still write to
  uint64_t last_id_ = 0;
};

}  // namespace scalai::executor::transport::internal
