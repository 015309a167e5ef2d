#pragma once
// The proactive design: Parcae's interval by interval accounting. At the start of each interval the layout for it is
// planned from the hosts of the past (a forecast) or, with foresight, from what will happen; then what really comes and
// goes in the interval is known (the cloud's notice), and the layout is cut down to what is there. Each interval trains
// for what its migration leaves. Nothing is lost: losses are noticed before.

#include "absl/status/statusor.h"
#include "ptc/sched/recovery/recovery.h"

namespace scalai::sched {

// What was decided in one interval.
struct LiveputChoice {
  HostInterval hosts;
  PipelineLayout layout;
  double pause_s = 0;
  double samples = 0;
};

// setup.liveput must be set; at most 1,000 hosts.
std::vector<LiveputChoice> plan_intervals(const RecoverySetup& setup, std::span<const HostInterval> truth);
// Hosts at the end of each interval of `interval_s` up to `until_s`.
std::vector<HostInterval> host_intervals(const Availability& availability, int hosts, double interval_s,
                                         double until_s);

absl::StatusOr<RecoveryResult> simulate_proactive(const RecoverySetup& setup);

}  // namespace scalai::sched
