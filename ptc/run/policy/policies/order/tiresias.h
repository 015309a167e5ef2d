#pragma once
// Tiresias (NSDI'19): least attained service in two dimensions (GPUs × time), in queues, and its Gittins index.
//
//   A = GPUs × seconds held by a job. Queue q holds jobs with threshold_q <= A < threshold_q+1. The lower queue goes
//   first, inside a queue by submission. Running jobs are stopped for jobs before them at arrivals, completions and
//   demotions.
//   PROMOTEKNOB k: a stopped job that waits k times as long as it ran returns to queue 0 and its service restarts at 0
//   (the restart is from memory of the authors' simulator). 0 = never.
//   Gittins index with quantum D: the largest index goes first,
//   G(A) = P(S - A <= D | S > A) / E[min(S - A, D) | S > A], with S the service of the jobs finished so far; before the
//   first one finished, least attained service decides. From memory of the paper; evaluated at each event and after
//   each quarter of the time that D takes on one GPU, not continuously.

#include <vector>

#include "ptc/run/policy/policies/catalogue.h"

namespace scalai::policy::order {

std::vector<PolicyInfo> attained_policies();

// The Gittins index of service `attained`. `finished`: sorted services of finished jobs; 0 if none exceeds `attained`.
double gittins_index(const std::vector<double>& finished, double attained, double quantum);

}  // namespace scalai::policy::order
