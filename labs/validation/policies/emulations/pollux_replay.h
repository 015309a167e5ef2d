#pragma once
// Pollux's own simulator (github.com/petuum/adaptdl, branch osdi21-artifact, simulator/simulator.py, pollux.py),
// interval by interval: its rules in our words, with our genetic search. Deterministic by seed. Pure function; any
// thread.
//
//   each interval of 60 s   jobs train for it ─► a search gives hosts to all jobs ─► a job that moves stands still for
//                           30 s
//
// It differs from our policy in our engine in how jobs train, not in how GPUs are given out:
//  - A job begins with its initial batch. From the end of the first interval in which it trained it uses the batch that
//    its fitted model of a step prefers; our throughput source has the best batch at once.
//  - The end of an epoch is rounded to whole seconds.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/policy/job.h"
#include "ptc/run/policy/policies/goodput/profiles.h"

namespace scalai::policy::validation {

struct PolluxReplay {
  int hosts = 16;
  int gpus_per_host = 4;  // 1 … 4
  uint64_t seed = 1;
  // What it differs in, one by one; false = as in our engine.
  bool fitted_batch = true, initial_batch = true, rounded = true;
};

// Seconds from submission to the end, by job. Job::type names the application. `profiles` is used during the call only.
// InvalidArgument: an unknown application; a placement that the profiles lack.
absl::StatusOr<std::vector<double>> replay_pollux(const Profiles& profiles, const Workload& workload,
                                                  const PolluxReplay& settings);

}  // namespace scalai::policy::validation
