#pragma once
// Load of a plan on each device and on its hottest link, and the least possible load of that link. Links count in
// bytes, without rates. Pure functions; arguments are used during the call only.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ptc/plan/planner.h"

namespace scalai::plan {

struct DeviceTraffic {
  DeviceId device;
  int64_t received = 0;    // from other devices, host memories and storage
  int64_t sent = 0;        // from this device's own memory; sends from a host's memory count for no device
  int64_t peak_extra = 0;  // DeviceMemory::peak_extra
};

// All devices of both collections, sorted by device.
std::vector<DeviceTraffic> device_traffic(const Plan& plan);

struct HottestLink {
  std::string name;           // "h3.nic.up": all NICs of a host together; else "g5.down", "h1.mem.up"
  int64_t bytes = 0;          // bytes of the plan on it
  int64_t optimum_bytes = 0;  // load of the hottest link in the best plan for these collections, see below
};

// The link with the most bytes. On a tie: the lowest number, devices before host memories, "down" before "up". Links
// are the networks of hosts if any byte crosses hosts or comes from storage, else the links of devices and host
// memories. nullopt: no byte moves between places.
//
// The optimum. Places are hosts; or devices and host memories, which exchange only with places of their own host. x
// ranges over the elements that some survivor holds; and for in(p) those that only storage has, too, which it may send
// to every host by a link of its own.
//
//   H(x)     = places that hold x in the old epoch
//   W(x)     = places of new boxes with x that do not hold it      each place once, however many devices there want x
//   in(p)    = | { x : p ∈ W(x) } |                                 bytes
//   F(G)     = Σ over x with H(x) ⊆ G of  1  +  (|W(x)| − 1 if also W(x) ⊆ G)      bytes of x; W(x) not empty
//   optimum  = max( max over p of in(p),  max over sets of places G of ⌈F(G) / |G|⌉ )
//
// The cheapest plans reach it when every byte may go its own way: |W(x)| copies of x leave places in H(x) ∪ W(x), the
// first from a place in H(x). internal/sharing.h explains why such shares exist. The linear program in
// link_optimum_test.cpp has the same optimum.
//
// The bound covers plans that move state from its holders to the places that want it. Three kinds of plans may have a
// cooler hottest link: those that pass state over other places, at the price of more bytes; those of the strategy
// `central`, which moves state to its hub before the plan begins; and those that read from storage although a device
// holds the state. A plan that reads boxes once has hotter links where it passes them on. Racks do not count here: the
// planner serves a rack that holds a box from inside, although its links get hotter. State that a device derives
// (derive_params) needs no link to its place.
//
// Links are those of hosts and devices: an oversubscribed uplink may take longer with fewer bytes of each. Nothing for
// clusters whose GPU links join hosts, because there bytes between hosts are not all on NICs.
std::optional<HottestLink> hottest_link(const Plan& plan, const PlannerInput& input);

}  // namespace scalai::plan
