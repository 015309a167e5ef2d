#pragma once
// Where the GPUs of jobs lie when only their numbers are decided: jobs that fit on a host get one, larger ones whole
// hosts. Sizes that are powers of two on hosts that are too never fail (buddies, largest first); other sizes are split
// if they must be.

#include <span>
#include <vector>

#include "ptc/sched/fleet.h"

namespace scalai::sched {

struct PackRequest {
  int gpus = 0;
  std::vector<HostShare> now;  // stays there when it has this many GPUs and room can be made for the others elsewhere
};

// `capacity`: free GPUs by host, 0 for hosts that are not to be used. The shares of each request, in their order. As
// few of those that could stay as possible are moved: hosts are cleared one by one, the one with the most free GPUs
// first. The requests need no more GPUs together than there are.
std::vector<std::vector<HostShare>> pack(std::span<const int> capacity, std::span<const PackRequest> requests);

}  // namespace scalai::sched
