#pragma once
// The SimGrid back end. Its .cpp is the only file that includes SimGrid, and the only one that turns its exceptions
// into a Status.
//
// Model: one star zone; an endpoint is a host whose route up is its `up` links and whose route down is its `down`
// links; a link that occurs twice on a route counts once. CM02 with no cross traffic, no window limit and no latency is
// exactly max-min fair (with latencies, SimGrid 3.32 and 4.1 can give a link more than its capacity). SimGrid merges
// events within 1e-9 s, so flows should last well above that.

#include <functional>

#include "absl/status/status.h"
#include "ptc/change/network.h"

namespace scalai::sim {

// with_backend(BackendKind::kSimGrid, ...), for a valid spec. The body runs in an actor on a host of its own.
absl::Status with_simgrid(const change::NetworkSpec& spec, const std::function<void(change::NetworkBackend&)>& body);

enum class BackendKind { kSimGrid, kMaxMin };

// Builds the back end and calls `body` with it; returns when body returns. With SimGrid, body runs inside an actor, and
// a process can do this once (SimGrid's engine is a singleton): a second call is a FailedPrecondition error.
absl::Status with_backend(BackendKind kind, const change::NetworkSpec& spec,
                          const std::function<void(change::NetworkBackend&)>& body);

}  // namespace scalai::sim
