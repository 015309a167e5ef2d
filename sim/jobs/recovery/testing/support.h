#pragma once
// For tests of this folder: small host traces and setups.

#include <string>
#include <utility>
#include <vector>

#include "sim/jobs/recovery/recovery.h"

namespace scalai::jobs::testing {

inline policy::FleetEvent host_event(double at_s, policy::FleetEvent::Kind kind, const std::vector<int>& hosts) {
  policy::FleetEvent event;
  event.at_s = at_s;
  event.kind = kind;
  for (const int host : hosts) event.hosts.emplace_back(host);
  return event;
}

// As many samples a second as hosts; a change costs 20 s, the first start nothing; steps of 4 samples.
inline RecoverySetup linear_setup(RecoveryDesign design, const policy::Availability& availability, int hosts,
                                  double until_s) {
  RecoverySetup setup;
  setup.design = design;
  setup.availability = &availability;
  setup.hosts = hosts;
  setup.until_s = until_s;
  setup.samples_per_s = [](int n) { return static_cast<double>(n); };
  setup.samples_per_step = 4;
  setup.costs.change_s = [](const HostChange& change) { return change.from == 0 ? 0.0 : 20.0; };
  setup.on_notice = on_notice_of(design);
  setup.stages = 2;
  return setup;
}

inline double all_gpu_hours(const policy::RecoveryResult& result) {
  return result.training_gpu_h + result.lost_gpu_h + result.changing_gpu_h + result.checkpoint_gpu_h +
         result.idle_gpu_h;
}

}  // namespace scalai::jobs::testing
