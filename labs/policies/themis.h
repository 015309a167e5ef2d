#pragma once
// Themis (NSDI'20): finish-time fairness by auctions of leases.
//
//   rho = T_shared / T_isolated. T_shared = age + remaining time on the requested GPUs. T_isolated = time alone ×
//   max(1, g n / N), with g requested GPUs, n jobs in the system on average over the job's life, N GPUs up now.
//   GPUs are auctioned when they are free or the lease of their job has ended; a job with a running lease keeps its
//   GPUs.
//   form=largest-rho (in common use): repeatedly the job with the largest rho gets its requested GPUs.
//   form=partial-allocation: the 1 - f share of jobs with the largest rho bid 1 / rho for each number of GPUs. Shares
//   maximise the product of bids (the smallest share each, then greedily by gain per GPU). A winner keeps the fraction
//   c = (product of the others' bids with it) / (product without it); the remaining GPUs go to the others in random
//   order. f = 0.8, the greedy search, and the value of a bid for no GPUs (rho after one more lease of waiting and then
//   the smallest share) are from memory of the paper or ours.

#include <vector>

#include "ptc/run/policy/policies/catalogue.h"

namespace scalai::policy::labs {

std::vector<PolicyInfo> themis_policies();

}  // namespace scalai::policy::labs
