#pragma once
// Pollux (OSDI'21): every interval, the allocation of all jobs with the best power mean of their speed-ups over a fair
// share, found by a genetic search (genetic.h) that goes on from where it was. Jobs grow to at most twice the GPUs they
// have trained on, and moving one costs it the share of its life that restarts have taken.

#include <cstdint>
#include <memory>
#include <string>

#include "ptc/sched/policies/goodput/genetic.h"
#include "ptc/sched/policy.h"

namespace scalai::sched {

struct PolluxSettings {
  double interval_s = 60;
  double exponent = -1;  // of the power mean
  SearchSettings search;
  int most_gpus = 64;  // of one job
  // Judge jobs by what the throughput source says (oracle), or fit a step model to what each job has shown when the
  // source is a GoodputSource of adaptive batches, as Pollux's agents do.
  std::string model = "fitted";  // or "oracle"
};

std::unique_ptr<Policy> make_pollux(const PolluxSettings& settings, uint64_t seed);

}  // namespace scalai::sched
