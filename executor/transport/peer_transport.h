#pragma once
// Bulk state between worker processes, by pull only: one asks, the other answers with the bytes. A transport is both
// ends at once: it fetches from peers for its callers, and serves peers through its handler.
//
//   fetch(peer, request, dst) ── request ──►  handler(request) ──► Payload
//                             ◄── chunks ───  gathered chunk by chunk
//
// Peers are worker processes, named by the host whose state they keep. Requests are opaque and small. All functions may
// be called by any thread at any time.

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

namespace scalai::executor {

// Answers one request. Called on the transport's own thread, so it looks up and returns, without blocking or waiting for
// other fetches; gathering the bytes is the payload's part. An error travels to the peer as it is, code and message.
using AnswerHandler = std::function<absl::StatusOr<Payload>(std::string_view request)>;

using Deadline = std::chrono::steady_clock::time_point;

class PeerTransport {
 public:
  // Closes.
  virtual ~PeerTransport() = default;

  // How others reach this process: opaque bytes, valid as long as the transport lives.
  virtual std::string address() const = 0;

  // Names the process at `address`. A peer that was connected before is replaced, and fetches from it that still run
  // fail with Unavailable, unless the address is the same and the connection alive: then nothing happens. Does not wait
  // for the peer to answer, so that it is dead may show only at the first fetch.
  //   InvalidArgument  no address of a transport of this kind
  //   Unavailable      nobody is there
  //   Cancelled        close() was called
  virtual absl::Status connect(HostId peer, std::string_view address) = 0;

  // Asks `peer` and puts its answer into `dst`, in order. Blocks. On any error `dst` holds anything, but nobody writes to
  // it after the return.
  //   Unavailable         not connected, or the peer died; connect() again to go on
  //   DeadlineExceeded    not everything arrived in time
  //   FailedPrecondition  the answer is not of the size of `dst`
  //   Cancelled           close() was called
  //   any other           from the peer's handler
  virtual absl::Status fetch(HostId peer, std::string_view request, std::span<const std::span<std::byte>> dst,
                             Deadline deadline) = 0;
  absl::Status fetch(HostId peer, std::string_view request, std::span<std::byte> dst, Deadline deadline) {
    return fetch(peer, request, std::span<const std::span<std::byte>>(&dst, 1), deadline);
  }

  // Ends all fetches with Cancelled, and returns when no caller is inside fetch() and the handler will not be called
  // again. Peers that fetch from here see Unavailable. Later calls fail with Cancelled. Idempotent.
  virtual void close() = 0;
};

}  // namespace scalai::executor
