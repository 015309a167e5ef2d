#pragma once
// Policies whose shares are applied as they are, without rounds: a job with half of a GPU's time has it all the time.
// No scheduler can do this; it bounds what rounds can reach (Gavel's "ideal"). sim/jobs/fluid.h plays them.

#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/policy/policy.h"

namespace scalai::policy {

// A job's part of the time of some GPUs.
struct JobShare {
  JobId job;
  GpuType type;
  double share = 0;     // of the time, in (0, 1]
  double per_s = 0;     // iterations per second while it has them
  bool beside = false;  // the second of two jobs on the same GPUs
};

class FluidPolicy : public Policy {
 public:
  // Shares of the active jobs from now until something happens: a job comes or goes, a rate changes by itself, hosts
  // come or go. A job may have shares of several types, in sum at most 1; of a type at most its GPUs are given.
  virtual absl::StatusOr<std::vector<JobShare>> shares(const View& view) = 0;
};

}  // namespace scalai::policy
