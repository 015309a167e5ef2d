#pragma once
// Bulk state between worker processes, by pull only: one end requests, the other answers with bytes. A transport is
// both ends at once: it fetches from peers for its callers, and serves peers through its handler. Thread-safe.
//
//   fetch(peer, request, dst) ── request ──►  handler(request) ──► Payload
//                             ◄── chunks ───  gathered chunk by chunk
//
// Peers are worker processes, named by the host of their state. Requests are opaque and small.

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/transport/payload.h"
#include "ptc/base/ids.h"

namespace scalai::executor::transport {

// Answers one request, on the transport's own thread. It must not block or wait for other fetches: it looks up the
// bytes, and the payload gathers them later. `request` is valid during the call. The peer gets an error as it is, code
// and message.
using AnswerHandler = std::function<absl::StatusOr<Payload>(std::string_view request)>;

using Deadline = std::chrono::steady_clock::time_point;

class PeerTransport {
 public:
  // Calls close().
  virtual ~PeerTransport() = default;

  // Opaque bytes by which others connect to this process; valid as long as the transport.
  virtual std::string address() const = 0;

  // Sets the address of a peer. Replaces an earlier connection, whose running fetches fail with Unavailable; no effect
  // if the address is equal and the connection alive. Does not wait for an answer, so a dead peer may show only at the
  // first fetch.
  //   InvalidArgument  not an address of this kind of transport
  //   Unavailable      no process at this address
  //   Cancelled        close() was called
  virtual absl::Status connect(HostId peer, std::string_view address) = 0;

  // Requests bytes from `peer` and writes them to the spans of `dst`, in order. Blocks. After an error the content of
  // `dst` is undefined, but nobody writes to it after the return.
  //   Unavailable         not connected, or the peer died; connect() again to continue
  //   DeadlineExceeded    not all bytes arrived in time
  //   Aborted             other fetches of this end had all the room until the deadline; the peer was not asked
  //   FailedPrecondition  the answer has not the size of `dst`
  //   Cancelled           close() was called
  //   any other           from the peer's handler
  virtual absl::Status fetch(HostId peer, std::string_view request, std::span<const std::span<std::byte>> dst,
                             Deadline deadline) = 0;
  absl::Status fetch(HostId peer, std::string_view request, std::span<std::byte> dst, Deadline deadline) {
    return fetch(peer, request, std::span<const std::span<std::byte>>(&dst, 1), deadline);
  }

  // Ends all fetches with Cancelled. Returns when no caller is inside fetch() and the handler will not be called again.
  // Peers that fetch from here get Unavailable. Later calls return Cancelled. Idempotent.
  virtual void close() = 0;
};

}  // namespace scalai::executor::transport
