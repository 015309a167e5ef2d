#pragma once
// Lower bounds: the least bytes that any plan must move, and the number of host losses that the new state survives.
// Computed from the two collections alone, not from the plan. Pure functions; arguments are used during the call only.

#include "ptc/plan/planner.h"

namespace scalai::plan {

namespace internal {
struct Difference;
}

struct Bounds {
  // Given the placement α′, the residency and the way of storage reads, in bytes:
  //   kept, same_device   needed ∩ held on the device, as the same box or as part of another
  //   derived             with derive_params: the part of the rest that the device's own new masters cover
  //   cross_host          Σ over hosts | needed on the host \ held or derived there |, each box once per host
  //   same_host           Σ over devices of the rest − cross_host − from_storage
  //   from_storage        Σ over boxes that no survivor holds, of the devices that want and do not derive them: reads
  //                       kOnce 1, kEachHost their hosts, kEachDevice all of them. The others get them over the
  //                       network: kOnce crosses to every host but one. Without storage as kEachDevice
  // Where the dtype changes, travelling bytes count in the narrower type (TensorInfo::element_bytes).
  ClassBytes given_placement;
  // For any assignment of the new ranks to the same devices, the larger of
  //   | new state \ union of the target hosts' state |   and   Σ over hosts max(0, least a rank needs − held there).
  // Tensors that derive_params can derive count as nothing.
  int64_t any_placement_cross_host = 0;
};

// CHECK: both collections have the same tensors, and the cluster has their devices. The second form takes the
// difference that a caller already has.
Bounds lower_bounds(const PlannerInput& input, StorageReads reads = StorageReads::kOnce);
Bounds lower_bounds(const PlannerInput& input, const internal::Difference& difference, StorageReads reads);

// The largest n such that the loss of any n hosts leaves every box on a surviving host: on one of its devices, or as
// one of these copies in its memory. 0: some element is on one host only.
int survives_host_losses(const collection::Collection& collection, const cluster::Cluster& cluster,
                         const std::vector<collection::ExtraHolder>& copies = {});
int survives_host_losses(const internal::Difference& difference, const cluster::Cluster& cluster);

}  // namespace scalai::plan
