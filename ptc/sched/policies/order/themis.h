#pragma once
// Themis (NSDI'20): finish-time fairness by auctions of leases.
//
//   rho = T_shared / T_isolated. T_shared = age + time left with what it asked for; T_isolated = time alone x max(1, g
//   n / N), g GPUs asked for, n jobs in the system on average over its life, N GPUs up now.
//   GPUs come up for auction when they are free or the lease of the job on them has ended; a job whose lease runs keeps
//   its GPUs.
//   form=largest-rho (in common use): again and again the job with the largest rho gets what it asks for.
//   form=partial-allocation: the 1 - f share of jobs with the largest rho bid 1 / rho for each number of GPUs; shares
//   that maximise the product of bids (the smallest each, then greedily by gain per GPU); a winner keeps the fraction c
//   = (product of the others' bids with it) / (product without it); what is left goes to the others in random order. f
//   = 0.8, the greedy search, and that a bid for no GPUs is rho after one more lease of waiting and then the smallest
//   share, are from memory of the paper or ours.

#include <vector>

#include "ptc/sched/policies/catalogue.h"

namespace scalai::sched::order {

std::vector<PolicyInfo> themis_policies();

}  // namespace scalai::sched::order
