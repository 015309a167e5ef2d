#pragma once
// Whole parts of a state between devices and host memory: what strategies that stage state there write before a change and
// read after it.

#include <set>
#include <vector>

#include "ptc/change/stages.h"
#include "ptc/collection/collection.h"

namespace scalai::change {

// Bytes of state on each device under a collection (padding included), in rank order.
std::vector<int64_t> state_bytes_of_ranks(const collection::Collection& collection);

// Stage: of what data-parallel replicas hold alike, the first survivor (or every one) writes its copy into host memory,
// its own host's or the hub's. With ZeRO a replica's optimizer state is its own. `gone` devices hold nothing.
std::vector<BulkFlow> stage_flows(const collection::Collection& from, const std::set<DeviceId>& gone,
                                  const plan::Cluster& cluster, HostId hub, bool every_replica);
// Load: every new rank reads its state from there.
std::vector<BulkFlow> load_flows(const collection::Collection& to, const plan::Cluster& cluster, HostId hub);

}  // namespace scalai::change
