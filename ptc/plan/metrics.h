#pragma once
// What a plan costs each device and the hottest link, and how cool that link could be. Pure functions; links are counted
// in bytes, without rates.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ptc/plan/planner.h"

namespace scalai::plan {

struct DeviceTraffic {
  DeviceId device;
  int64_t received = 0;    // from other devices, host memories and storage
  int64_t sent = 0;        // out of this device's own memory; what a host's memory sends counts for no device
  int64_t peak_extra = 0;  // DeviceMemory::peak_extra
};

// Of every device of both sides, sorted by device.
std::vector<DeviceTraffic> device_traffic(const Plan& plan);

struct HottestLink {
  std::string name;           // "h3.nic.up": all NICs of a host together; "g5.down", "h1.mem.up": see below
  int64_t bytes = 0;          // that the plan puts on it
  int64_t optimum_bytes = 0;  // no plan for these collections has a cooler hottest link
};

// The link that carries the most bytes (the first by name order of hosts, "down" before "up", on a tie). Links are the
// hosts' networks for bytes that cross hosts; when none does, the links of devices and host memories. Nothing when no
// byte moves between places at all (storage is not a place here).
//
// The optimum. Places are hosts (or devices); x ranges over elements that some survivor holds.
//
//   M(p)     = elements of new boxes on p that p does not hold          each element once, whatever wants it on p
//   H(x)     = places that hold x in the old epoch
//   F(G)     = | { x in some M(p) : H(x) ⊆ G } |                        bytes
//   optimum  = max( max over p of |M(p)|,  max over G of ⌈F(G) / |G|⌉ )
//              with G over every set of holders that occurs, and all holders together
//
// It is a lower bound: (in) p does not hold M(p), so all of it arrives over p's link. (out) Let x be counted in F(G). x
// has to arrive at a place that lacks it. The first time that x leaves any place it leaves one that held it before, a
// place in H(x) ⊆ G. So the places of G send at least F(G) bytes together and one of them at least its share. Neither
// step asks what a plan does afterwards, so it holds for plans that pass on what they received, too.
//
// It speaks of plans that read state where devices hold it, or in their own host's memory. The strategy `central` moves
// state to its hub before the plan begins, and reading from storage what a device holds avoids the network: such plans
// may stay below the optimum.
std::optional<HottestLink> hottest_link(const Plan& plan, const PlannerInput& input);

}  // namespace scalai::plan
