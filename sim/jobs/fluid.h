#pragma once
// The run of a policy whose shares are applied continuously (ptc/run/policy/fluid.h): a job's rate is the sum over its
// shares of share x rate. Shares are computed anew whenever a job comes or goes, a rate changes, or hosts do. Changes
// of shares cost nothing, and failures lose no work; GPUs of hosts under notice are not given out. Same order of events
// and same Outcome as sim/jobs/engine.h. Jobs have no GPUs of their own, so Watcher::placed and training are not
// called. Virtual time, one thread.

#include "ptc/run/policy/fluid.h"
#include "sim/jobs/engine.h"

namespace scalai::jobs {

// `setup.changes` is not asked. Errors: those of the policy; shares beyond the GPUs that are up (Internal).
absl::StatusOr<policy::Outcome> run_fluid(const Setup& setup, policy::FluidPolicy& policy);

}  // namespace scalai::jobs
