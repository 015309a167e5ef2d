#pragma once
// Pollux (OSDI'21): at every interval, the allocation of all jobs with the best power mean of their speed-ups over a
// fair share, found by a genetic search (genetic.h) that continues from its last result. Jobs grow to at most twice the
// GPUs that they have trained on. A move costs a job the share of its life that restarts have taken.

#include <cstdint>
#include <memory>
#include <string>

#include "ptc/run/policy/policies/goodput/genetic.h"
#include "ptc/run/policy/policy.h"

namespace scalai::policy {

struct PolluxSettings {
  double interval_s = 60;
  double exponent = -1;  // of the power mean
  SearchSettings search;
  int most_gpus = 64;  // maximum for one job
  // "oracle": speeds from the throughput source. "fitted": a step model fitted to the observed steps of each job, as in
  // Pollux's agents, if the source is a GoodputSource of adaptive batches.
  std::string model = "fitted";  // or "oracle"
};

std::unique_ptr<Policy> make_pollux(const PolluxSettings& settings, uint64_t seed);

}  // namespace scalai::policy
