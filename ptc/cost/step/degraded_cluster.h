#pragma once
// What degraded links leave of a cluster, for step times in closed form. Pure function; any thread.

#include <map>
#include <optional>
#include <span>
#include <string>

#include "ptc/cluster/cluster.h"

namespace scalai::step {

// `cluster` at the rates that a job on these devices gets. `links`: share of nominal rate by name (cluster::links_of);
// 0 = down. Ranks of a collective wait for the slowest of them, so the slowest link that the job uses counts for all of
// its kind on that host (hosts of a ring are paced by the slowest, too: Patarasuk and Yuan 2009, bandwidth-optimal
// all-reduce):
//
//   hN.gM.up|down       the host's GPU links, if the job has two ranks there (or in its NVLink domain)
//   hN.nicM.up|down     the host's NICs, if the job is on several hosts (or NVLink domains) and one of its GPUs there
//                       uses this NIC
//   hN.gM.pcie.up|down  the ways of the host's GPUs to their NICs, if the job is on several hosts
//   leafN.up|down       the uplinks of all leaves, if the job is on several leaves, this one among them; so of other
//                       tiers. Slow NICs below them leave uplinks as they are
//   fabric              the backbone, if the job is on several hosts
//
// Rails of one block of hosts, storage and hosts' memories are on no way of a training step. nullopt: the job needs a
// link that is down.
std::optional<cluster::Cluster> degraded_cluster(const cluster::Cluster& cluster, std::span<const DeviceId> devices,
                                                 const std::map<std::string, double>& links);

}  // namespace scalai::step
