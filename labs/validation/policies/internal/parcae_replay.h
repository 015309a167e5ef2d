#pragma once
// Parcae's replay files with its decisions: one JSON array a line,
//   [time_ms, "add" | "remove" | "no-op", {"nodes": […], "throughput_opt_strategy": [dp, pp], "liveput_truth_strategy":
//   [dp, pp], …}]

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/jobs/recovery/liveput.h"

namespace scalai::policy::validation {

struct ParcaeMinute {
  jobs::HostInterval hosts;
  jobs::PipelineLayout fastest;    // of highest throughput
  jobs::PipelineLayout foresight;  // of highest liveput, the future known
};

// Errors: NotFound; InvalidArgument names the line.
absl::StatusOr<std::vector<ParcaeMinute>> read_parcae_replay(const std::string& path);

}  // namespace scalai::policy::validation
