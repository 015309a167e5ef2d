#pragma once
// What transports say, in one place, so that all say the same.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "ptc/base/ids.h"

namespace scalai::executor::transport::internal {

absl::Status not_connected(HostId peer);
absl::Status unavailable(HostId peer, std::string_view why);
absl::Status too_late(HostId peer, int64_t arrived, int64_t wanted);
absl::Status no_room(HostId peer, int64_t wanted);
absl::Status wrong_size(HostId peer, int64_t answered, int64_t wanted);
absl::Status closed();
std::string bad_address(HostId peer);

}  // namespace scalai::executor::transport::internal
