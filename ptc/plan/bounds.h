#pragma once
// Lower bounds: what any plan must move, and how many hosts the new state survives. Computed from the two collections
// alone, not from the plan.

#include "ptc/plan/planner.h"

namespace scalai::plan {

namespace internal {
struct Difference;
}

struct Bounds {
  // Given the placement α′ and the residency:
  //   kept, same_device   needed ∩ held on the device, as the same box or as part of another
  //   derived             with derive_params: of the rest, what the device's own new masters cover
  //   cross_host          Σ over hosts | needed on the host \ held or derived there |, each box once a host
  //   same_host           Σ over devices of the rest − cross_host − from_storage
  //   from_storage        Σ over devices of what no survivor holds and no master covers
  // Where the dtype changes: in the narrower type for what travels (TensorInfo::element_bytes).
  ClassBytes given_placement;
  // For any assignment of the new ranks to the same devices: the larger of
  //   | new state \ union of what the target hosts hold |   and   Σ over hosts max(0, least a rank needs − held there).
  // What can be derived counts as nothing.
  int64_t any_placement_cross_host = 0;
};

Bounds lower_bounds(const PlannerInput& input);
Bounds lower_bounds(const PlannerInput& input, const internal::Difference& difference);

// The most hosts that may be lost with every box still on a surviving host (0 when some box is on one host only).
int survives_host_losses(const collection::Collection& collection, const Cluster& cluster);
int survives_host_losses(const internal::Difference& difference, const Cluster& cluster);

}  // namespace scalai::plan
