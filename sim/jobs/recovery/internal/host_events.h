#pragma once
// An availability trace as a list of single host events in order of time, with the moments hosts become usable.

#include <vector>

#include "sim/jobs/recovery/recovery.h"

namespace scalai::jobs::recovery::internal {

struct HostEvent {
  enum class Kind : uint8_t { kCome, kUsable, kNotice, kGone };
  double at_s = 0;
  Kind kind = Kind::kCome;
  int host = 0;
  double until_s = 0;  // kNotice: it will be taken then
};

// Hosts that are up at the start come at 0 and are usable at once. Sorted by time; of one instant, in the trace's
// order.
std::vector<HostEvent> host_events(const policy::Availability& availability, int hosts, double ready_s);

// When the last of the trace's events is; 0 when there is none.
double last_event_s(const policy::Availability& availability);

}  // namespace scalai::jobs::recovery::internal
