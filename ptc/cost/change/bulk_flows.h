#pragma once
// Transfers of a whole state between devices and host memory, for strategies that stage state there before a change and
// load it afterwards. Pure functions; arguments are used during the call only.

#include <set>
#include <vector>

#include "ptc/cost/change/stages.h"
#include "ptc/state/collection/collection.h"

namespace scalai::change {

// Bytes of state of each rank of a collection, padding included, in rank order.
std::vector<int64_t> state_bytes_of_ranks(const collection::Collection& collection);

// Stage: devices write their state into the memory of their host, or of `hub` if that is valid. Of state that
// data-parallel replicas hold alike, only the first surviving replica writes its copy; with `every_replica` all of them
// do. ZeRO shards of optimizer state differ between replicas, so all are written. Devices in `gone` hold nothing.
// Sorted by device.
std::vector<BulkFlow> stage_flows(const collection::Collection& from, const std::set<DeviceId>& gone,
                                  const cluster::Cluster& cluster, HostId hub, bool every_replica);
// The host that takes in all the state of a change by way of `hub`: the hub, or, where no new device is on it, the
// first host of the new devices, as Tenplex's released program has it. Invalid if `hub` is.
HostId target_hub(HostId hub, const collection::Collection& to, const cluster::Cluster& cluster);
// Load: every new rank reads its state from its host's memory, or from that of `hub`. One flow for each pair of places.
std::vector<BulkFlow> load_flows(const collection::Collection& to, const cluster::Cluster& cluster, HostId hub);

}  // namespace scalai::change
