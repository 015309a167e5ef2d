#pragma once
// Tiresias (NSDI'19): least attained service in two dimensions (GPUs x time), in queues, and its Gittins index.
//
//   A = GPUs x seconds held, of a job. Queue q holds jobs with threshold_q <= A < threshold_q+1; the lower queue goes
//   first, by submission inside one; running jobs are stopped for those before them at arrivals, completions and
//   demotions.
//   PROMOTEKNOB k: a job that was stopped and waits k times as long as it ran goes back to queue 0 and its service
//   counts anew (that the count restarts is from memory of the authors' simulator). 0 = never.
//   Gittins index with quantum D: max is to be served first of G(A) = P(S - A <= D | S > A) / E[min(S - A, D) | S > A],
//   S being the service of the jobs that finished so far; before any did, least attained service decides. From memory
//   of the paper, and looked at anew at each event and each quarter of the time D takes on one GPU, not continuously.

#include <vector>

#include "ptc/sched/policies/catalogue.h"

namespace scalai::sched::order {

std::vector<PolicyInfo> attained_policies();

// The Gittins index of service `attained`, given sorted services of jobs that finished; 0 if none of them exceeds it.
double gittins_index(const std::vector<double>& finished, double attained, double quantum);

}  // namespace scalai::sched::order
