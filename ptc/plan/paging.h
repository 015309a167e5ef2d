#pragma once
// What a memory cap would cost if boxes were not cut: bytes that any order of any plan must page out to a host's memory
// and back. Pure function; the arguments are used during the call only.
//
// A plan under a cap cuts boxes, orders them into rounds and frees early (internal/memory_cap.h); it pages nothing.
// With whole boxes there may be no such order, for two reasons. A box is the common part of an old and a new box of one
// tensor.
//
//   limit(d)   max(before(d), after(d)) + cap
//   needed(d)  bytes of old boxes that d alone holds and that some device wants, d itself included
//
// First arrival. Before anything has arrived, nothing that is needed can be given back. Let C be a set of devices whose
// needed boxes are wanted in C only. When the first whole box arrives in C, on device d, at least
// needed(d) + box − limit(d) bytes must have left d for a host, and must come back. The least over all boxes that
// arrive in C is the bound of C; bounds of disjoint sets add up. The sets taken are the strongly connected components
// that nothing leaves.
//
// Largest box. All state that devices hold and somebody wants lies somewhere at any time. While box b is copied it
// exists twice. So at least b + (sum of that state) − Σ limit(d) bytes of it are in hosts at that moment.
//
// Boxes of which a redundant copy lies in a host's memory are not needed on a device. With storage everything can be
// read again, and both arguments say nothing.

#include <string_view>

#include "ptc/plan/planner.h"

namespace scalai::plan {

struct PagingBound {
  int64_t bytes = 0;         // over all devices, one way; 0 = neither argument says anything
  std::string_view by = "";  // "first arrival" or "largest box", the one that gives more; in static storage
  DeviceId device;           // where the box arrives; with several sets, of the one with the most. None if bytes is 0
  int64_t device_bytes = 0;  // of that set; largest box: = bytes
};

// `memory` has what each device holds before and after (Plan::memory). CHECK as make_plan();
// input.options.memory_cap does not count.
PagingBound paging_of_whole_boxes(const PlannerInput& input, const std::vector<DeviceMemory>& memory,
                                  int64_t memory_cap);

}  // namespace scalai::plan
