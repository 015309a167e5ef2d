#pragma once
// A controller's answer about a step, checked before anybody relies on its structure: readers index hosts, devices,
// tensors and digests by what it says. A function; any thread.

#include "absl/status/status.h"
#include "ptc/state/collection/collection.h"

namespace scalai::proto {
class LiveState;
}

namespace scalai::executor::live {

// Of a state that is ready, whose collection is `side`. InvalidArgument: hosts with impossible numbers of devices,
// devices of ranks or peers on no host, a host twice among the peers, tensors that the collection lacks, digests or
// statistics of boxes that are not in their tensor, or of another type, or other numbers of digests than pieces.
absl::Status check_live(const proto::LiveState& live, const collection::Collection& side);

}  // namespace scalai::executor::live
