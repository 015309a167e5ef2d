#pragma once
// Elastic policies that give GPUs one by one by the gain of one more GPU, at each arrival, completion and change of
// capacity. Each GPU type is a pool of its own (shares_of_gpus.h); a job that would wait moves to a type with enough
// free GPUs. One more GPU means the next number that the job can use. Functions without state.
//
//   Optimus (EuroSys'18): first the smallest share for each job, shortest remaining time first (the paper does not
//   say); then repeatedly one more GPU to the job with the largest t(p) - t(p + 1) per GPU, with t(p) the remaining
//   time on p GPUs; until no job gains.
//   AFS-L (NSDI'21): first the smallest share for each job, shortest first; then each GPU to the winner of a
//   tournament. Of two jobs l has the shorter remaining time and h the longer; l wins if
//   (p_l' - p_l) / p_l > (p_h' - p_h) / p_h', with p and p' the throughput now and with one more GPU. O(jobs × GPUs).
//   AFS-P: the same for unknown lengths: the job with fewer epochs counts as the shorter one, ties by submission. This
//   form is ours, after a sketch of the paper; it decides again at the end of each epoch.

#include <memory>
#include <vector>

#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/order/shares_of_gpus.h"

namespace scalai::policy::order {

std::vector<PolicyInfo> marginal_policies();

// Who gets the smallest share first: the claim with the smallest value, ties by arrival.
using FirstShare = double (*)(const Claim& claim);
double shortest_first(const Claim& claim);  // remaining time on the smallest share, in seconds
std::unique_ptr<Policy> make_optimus(FirstShare first);

// The rules alone: divide `gpus` GPUs among claims without a share; return the number of GPUs left. `epochs` (by claim)
// decides the shorter job if lengths are unknown; empty = they are known.
int share_optimus(int gpus, FirstShare first, std::vector<Claim>* claims);
int share_afs(int gpus, const std::vector<double>& epochs, std::vector<Claim>* claims);

}  // namespace scalai::policy::order
