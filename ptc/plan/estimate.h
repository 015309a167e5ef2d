#pragma once
// Estimated time of a plan, without simulation: for comparisons between plans. Reports use the times of the runtimes.
// Pure functions; arguments are used during the call only.
//
//   T = Σ over rounds ( (hops + 1) · α + max over links  bytes(link) / bandwidth(link) )        alpha-beta model
//
// `hops` is the highest hop number of the round; a round without transfers between places has no α. Links, each
// direction by itself: all NICs of a host together (bytes between hosts and from storage); oversubscribed uplinks and
// the backbone of the fabric; the GPU link of a device (bytes inside its host or NVLink domain); PCIe of a device
// (bytes from its host's memory or from storage); storage reads of the whole cluster; with emulated devices, the copies
// of a host into all of its devices, and those of all hosts together. The hops of a round run as a pipeline, so only
// their latencies add up. A link without a bandwidth costs nothing; others have the rates that transfers reach
// (cluster::reached).

#include <vector>

#include "ptc/cluster/cluster.h"
#include "ptc/plan/plan.h"

namespace scalai::plan {

inline constexpr double kMessageLatency_s = 20e-6;  // α: launch and first byte of a group of sends and receives

// Seconds of each round; a round without transfers has an entry, too.
std::vector<double> round_seconds(const Plan& plan, const cluster::Cluster& cluster);
// The sum of round_seconds().
double estimate_seconds(const Plan& plan, const cluster::Cluster& cluster);

// What boxes and messages cost besides their bytes, at the device that has the most of them. As our executor was
// measured (results/executor): boxes of 4 KiB, and a matrix in ever smaller pieces between 2 to 32 workers.
struct MessageCosts {
  double box_s = 0;   // of each box that a device sends or receives
  double peer_s = 0;  // of each device that it exchanges any with
};
inline constexpr MessageCosts kMeasuredMessages = {.box_s = 3e-6, .peer_s = 15e-6};
// Seconds of each round. Copies on a device count as boxes without a peer; storage is one peer.
std::vector<double> message_seconds(const Plan& plan, const MessageCosts& costs);

// The most bytes that a device allocates beyond its old state, and the time for it at a rate; rate 0 = no time.
int64_t most_allocated_bytes(const Plan& plan);
double allocate_seconds(const Plan& plan, double bytes_per_s);

// Whether the plan frees old state before its commit, as plans under a memory cap of several rounds may.
bool frees_early(const Plan& plan);

}  // namespace scalai::plan
