#pragma once
// The SimGrid back end. Its .cpp is the only file that includes SimGrid, and the only one that converts its exceptions
// to a Status. One thread.
//
// Model: one star zone. An endpoint is a host; its route up has its `up` links, its route down its `down` links. A link
// that occurs twice on a route counts once. CM02 without cross traffic, window limit and latency is exactly max-min
// fair; with latencies, SimGrid 3.32 and 4.1 can give a link more than its capacity. SimGrid merges events within 1e-9
// s, so flows should last well above that.

#include <functional>

#include "absl/status/status.h"
#include "ptc/cost/change/network.h"

namespace scalai::sim {

// As with_backend(BackendKind::kSimGrid, ...) for a valid spec. The body runs in an actor on a host of its own.
absl::Status with_simgrid(const change::NetworkSpec& spec, const std::function<void(change::NetworkBackend&)>& body);

enum class BackendKind { kSimGrid, kMaxMin };

// Builds the back end and calls `body` with it; the back end lives until `body` returns, and then this function
// returns. With SimGrid, `body` runs inside an actor, once per process, because SimGrid's engine is a singleton.
// InvalidArgument: a bad spec (check_network), or up_weights with SimGrid. FailedPrecondition: a second SimGrid run.
// Aborted: SimGrid rejected the network. `resolution_s` is for kMaxMin (MaxMinBackend).
absl::Status with_backend(BackendKind kind, const change::NetworkSpec& spec,
                          const std::function<void(change::NetworkBackend&)>& body, double resolution_s = 0);

}  // namespace scalai::sim
