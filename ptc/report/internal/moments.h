#pragma once
// The downtime that a single failure costs, whenever it comes. A job that goes back to a copy does the work since then
// again, so its loss depends on how long ago the last copy was. With copies every T of training, each of which
// counts w later, and a failure at any moment alike, the work that is lost is uniform over [w, w + T):
//
//     expected downtime = downtime − steps run again − steps cut off + w + T / 2
//
// The step that the end of a run cuts off counts for nothing, since it depends on the moment as well. From live state w
// is 0 and T one step. All that the script has after the failure moves with it. Where the job had its configuration for
// less than w + T, lost steps of several lengths, lost links, or chose by what it lost (pay-off), the runs of
// RunReport::moved take the place of the formula. Pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ptc/run/control/records.h"

namespace scalai::report {

struct MomentSummary {
  double interval_s = 0;         // T
  std::optional<double> lost_s;  // work lost at the moment of the run; nothing with moved runs
  double expected_s = 0;         // downtime: mean …
  double low_s = 0, high_s = 0;  // … and range over the moments
  int64_t moved_runs = 0;        // that it rests on; 0 = the closed form
};

// Nothing unless exactly one loss of devices, or failure of links, set off a change of the job that it completed.
std::optional<MomentSummary> moments_of(const control::RunReport& report, int job);

}  // namespace scalai::report
