#pragma once
// A policy that does not know how long jobs take, but has an estimate. Wraps any policy; one thread.
//
// The estimate of a job is its true work times a factor, the same for the whole run. The policy sees it in place of
// Job::work (and Job::duration_s), and true progress: what it takes for the work left is estimate - work done, as in
// studies of scheduling by estimated sizes (Dell'Amico, Carra and Michiardi, PSBS, 2014). A job that outlives its
// estimate is believed to be nearly done: a thousandth of the estimate is left, again and again.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ptc/run/policy/policy.h"

namespace scalai::policy {

struct EstimateError {
  double uniform = 0;     // factors within 1 ± this, all alike; in [0, 1)
  double log_normal = 0;  // or e^(this · z), z standard normal: the median is 1; >= 0
  bool none() const { return uniform == 0 && log_normal == 0; }
  std::string description() const;  // "run times off by a factor within 1 ± 0.2, uniform"
};

// A factor for each job. The random numbers depend on the seed and the job's number only, so runs with other sizes of
// the error have jobs that are off in the same direction.
std::vector<double> estimate_factors(const EstimateError& error, uint64_t seed, size_t jobs);

// Owns `policy`. `factors`: by job, each > 0, one for each job that will come.
std::unique_ptr<Policy> with_estimates(std::unique_ptr<Policy> policy, std::vector<double> factors);

}  // namespace scalai::policy
