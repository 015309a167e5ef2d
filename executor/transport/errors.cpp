#include "executor/transport/internal/errors.h"

#include <fmt/format.h>

#include "ptc/base/units.h"

namespace scalai::executor::transport::internal {

absl::Status not_connected(HostId peer) {
  return absl::UnavailableError(fmt::format("peer h{}: not connected", peer.value));
}

absl::Status unavailable(HostId peer, std::string_view why) {
  return absl::UnavailableError(fmt::format("peer h{}: connection lost ({})", peer.value, why));
}

absl::Status too_late(HostId peer, int64_t arrived, int64_t wanted) {
  return absl::DeadlineExceededError(fmt::format("peer h{}: {} of {} arrived before the deadline", peer.value,
                                                 format_bytes(arrived), format_bytes(wanted)));
}

absl::Status no_room(HostId peer, int64_t wanted) {
  return absl::AbortedError(
      fmt::format("peer h{} was not asked for {}: other fetches took all the room until the deadline", peer.value,
                  format_bytes(wanted)));
}

absl::Status wrong_size(HostId peer, int64_t answered, int64_t wanted) {
  return absl::FailedPreconditionError(
      fmt::format("peer h{}: answered with {} bytes, {} are expected", peer.value, answered, wanted));
}

absl::Status closed() { return absl::CancelledError("the transport is closed"); }

std::string bad_address(HostId peer) {
  return fmt::format("peer h{}: not the address of a transport of this run and build", peer.value);
}

}  // namespace scalai::executor::transport::internal
