#pragma once
// Lower bounds: what any plan must move, and how many hosts the new state survives. Computed from the two collections
// alone, not from the plan.

#include "ptc/plan/planner.h"

namespace scalai::plan {

struct Bounds {
  // Given the placement α′ and the residency:
  //   kept, same_device   needed ∩ held on the device, as the same box or as part of another
  //   cross_host          Σ over hosts | needed on the host \ held on the host |, each box once a host
  //   same_host           Σ over devices | needed \ held on the device | − cross_host − from_storage
  //   from_storage        Σ over devices of what no survivor holds
  ClassBytes given_placement;
  // For any assignment of the new ranks to the same devices: the larger of
  //   | new state \ union of what the target hosts hold |   and   Σ over hosts max(0, least a rank needs − held there).
  int64_t any_placement_cross_host = 0;
};

Bounds lower_bounds(const PlannerInput& input);

// The most hosts that may be lost with every box still on a surviving host (0 when some box is on one host only).
int survives_host_losses(const collection::Collection& collection, const Cluster& cluster);

}  // namespace scalai::plan
