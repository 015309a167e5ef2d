#pragma once
// Redundant copies of a job's state in hosts' memories: which boxes need them, where they go, and what the job then
// survives. Private to ptc/run/control.
//
// With k copies and OTHER_HOST every box is to lie on k + 1 hosts, so that the loss of any k hosts leaves all state.
// With OTHER_DEVICE it is to lie in k + 1 places, devices or hosts' memories, so that the loss of any k devices does:
//
//   copies(box) = max(0, k + 1 − places that hold it)
//
// Copies go to hosts that are up and do not hold the box: those of the job where it has more than k, else all of the
// cluster. Each takes an even share of the bytes, as far as the choice allows. The first copy of OTHER_DEVICE goes to
// the memory of the box's own host.

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ptc/cost/change/bulk_flows.h"
#include "ptc/run/scenario/scenario.h"
#include "ptc/state/collection/collection.h"

namespace scalai::control {

struct Redundancy {
  std::vector<collection::ExtraHolder> copies;
  std::vector<change::BulkFlow> flows;                // the traffic that puts them there
  std::vector<std::pair<DeviceId, int64_t>> origins;  // by copy: the device it is made from, and its bytes
  // Of devices and copies together: less than k with OTHER_DEVICE, or where too few hosts are up.
  int survives_host_losses = 0;
};

Redundancy plan_redundancy(const collection::Collection& collection, const cluster::Cluster& cluster,
                           const scenario::RedundancyPolicy& policy, const std::set<HostId>& down);

// One copy of each box that is nowhere but on devices that leave, on hosts that are not `down`: those of the job that
// stay, else all that are up. Boxes without such a host are left out.
Redundancy plan_evacuation(const collection::Collection& collection, const cluster::Cluster& cluster,
                           const std::set<DeviceId>& leaving, const std::set<HostId>& down);
// Of these copies as many rows of boxes as hosts can send (`out_bytes`) and take in (`in_bytes`): in their order, to
// the first host with room. Any way that leaves no such room is as good, so that is, but for rows that are cut off,
//   Σ over senders min(bytes they have, out_bytes), at most Σ in_bytes.
Redundancy fill(const Redundancy& copies, const cluster::Cluster& cluster, std::map<HostId, int64_t> out_bytes,
                const std::map<HostId, int64_t>& in_bytes);

}  // namespace scalai::control
