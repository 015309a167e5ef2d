#pragma once
// The proactive design, with Parcae's accounting by intervals. At the start of an interval its layout is planned from a
// forecast of hosts or, with foresight, from the true future. Then the hosts that really come and go in the interval
// are known (the cloud's notice), and the layout is cut down to the hosts that exist. Each interval trains for the time
// that its migration leaves. Nothing is lost, because losses are announced. Pure functions; any thread.

#include "absl/status/statusor.h"
#include "sim/jobs/recovery/recovery.h"

namespace scalai::jobs {

// The decision of one interval.
struct LiveputChoice {
  HostInterval hosts;
  PipelineLayout layout;
  double pause_s = 0;
  double samples = 0;
};

// setup.liveput must be set; at most 1,000 hosts. `truth`: the intervals as they really happen.
std::vector<LiveputChoice> plan_intervals(const RecoverySetup& setup, std::span<const HostInterval> truth);
// Hosts at the end of each interval of `interval_s`, up to `until_s`.
std::vector<HostInterval> host_intervals(const policy::Availability& availability, int hosts, double interval_s,
                                         double until_s);

absl::StatusOr<policy::RecoveryResult> simulate_proactive(const RecoverySetup& setup);

}  // namespace scalai::jobs
