#pragma once
// How long a plan takes, without simulating it: for comparing plans, not for reports (those are the runtimes').
//
//   T = Σ over rounds ( (hops + 1) · α + max over links  bytes(link) / bandwidth(link) )        alpha-beta model
//
// Links, each direction by itself: the NICs of a host together (bytes between hosts), the GPU link of a device (bytes
// inside its host), PCIe of a device (from its host's memory, from storage), storage reads of the whole cluster; where devices are emulated, what a host
// copies into all of its devices, and all hosts together. The hops of a
// round run as a pipeline, so only their latencies add up. A link without bandwidth costs nothing.

#include <vector>

#include "ptc/plan/cluster.h"
#include "ptc/plan/plan.h"

namespace scalai::plan {

inline constexpr double kMessageLatency_s = 20e-6;  // α: launch and first byte of a send/recv group

// By round, rounds without transfers included.
std::vector<double> round_seconds(const Plan& plan, const Cluster& cluster);
// Their sum.
double estimate_seconds(const Plan& plan, const Cluster& cluster);

// The most that a device has to take beyond its old state, and how long that takes at a rate; 0 = no time.
int64_t most_allocated_bytes(const Plan& plan);
double allocate_seconds(const Plan& plan, double bytes_per_s);

// Whether old state goes before the plan is committed: from its second round on, under a memory cap.
bool frees_early(const Plan& plan);

}  // namespace scalai::plan
