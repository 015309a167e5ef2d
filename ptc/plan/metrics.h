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
  int64_t optimum_bytes = 0;  // the hottest link of the best plan for these collections, see below
};

// The link that carries the most bytes (the first by name order of hosts, "down" before "up", on a tie). Links are the
// hosts' networks for bytes that cross hosts; when none does, the links of devices and host memories. Nothing when no
// byte moves between places at all (storage is not a place here).
//
// The optimum. Places are hosts (or devices and host memories; these only deal with those of their own host); x ranges
// over elements that some survivor holds.
//
//   H(x)     = places that hold x in the old epoch
//   W(x)     = places of new boxes with x that do not hold it      each once, whatever wants it there
//   in(p)    = | { x : p ∈ W(x) } |                                 bytes
//   F(G)     = Σ over x with H(x) ⊆ G of  1  +  (|W(x)| − 1 if also W(x) ⊆ G)      bytes of x; W(x) not empty
//   optimum  = max( max over p of in(p),  max over sets of places G of ⌈F(G) / |G|⌉ )
//
// It is what the cheapest plans can reach when every byte may take its own way: copies of x leave places in H(x) ∪ W(x)
// only, |W(x)| of them, the first from a place in H(x); internal/sharing.h says why such shares can be had. The linear
// program in link_optimum_test.cpp has the same optimum.
//
// It bounds plans that move state from where it was to where it is wanted. One that passes state over places that neither
// had nor want it moves more bytes, but may have a cooler hottest link. So may the strategy `central`, which moves state
// to its hub before the plan begins, and plans that read from storage what a device holds. Racks do not count here; the
// planner serves a rack that holds a box from inside, though its links get hotter. What is derived (derive_params) on a
// device needs no link to its place.
std::optional<HottestLink> hottest_link(const Plan& plan, const PlannerInput& input);

}  // namespace scalai::plan
