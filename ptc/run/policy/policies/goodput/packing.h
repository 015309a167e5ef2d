#pragma once
// Places jobs on hosts when only their numbers of GPUs are decided: a job that fits one host gets one, a larger one
// whole hosts. Powers of two on hosts with powers of two always fit (buddies, largest first); other sizes are split if
// necessary. Pure function.

#include <span>
#include <vector>

#include "ptc/run/policy/fleet.h"

namespace scalai::policy {

struct PackRequest {
  int gpus = 0;
  std::vector<HostShare> now;  // kept if it has `gpus` GPUs and the others fit elsewhere
};

// `capacity`: free GPUs by host, 0 for hosts that must stay empty. Returns the shares of each request, in order. Moves
// as few jobs as possible: hosts are cleared one by one, the one with the most free GPUs first. CHECK: the requests fit
// the total capacity.
std::vector<std::vector<HostShare>> pack(std::span<const int> capacity, std::span<const PackRequest> requests);

}  // namespace scalai::policy
