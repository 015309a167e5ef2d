#pragma once
// Elastic policies that hand out GPUs one by one by what a job gains from one more, at each arrival, completion and
// change of capacity. On several GPU types each type is a pool of its own (shares_of_gpus.h); a job that would wait
// goes to another that has GPUs left. One more GPU means the next number the job can use.
//
//   Optimus (EuroSys'18): the smallest share each, shortest remaining time first; then again and again to the job with
//   the largest t(p) - t(p + 1), per GPU, t being remaining time with p GPUs; until nobody gains.
//   AFS-L (NSDI'21): the smallest share each, shortest first; then GPU by GPU to the winner of a tournament. Of two
//   jobs l is the one with the shorter remaining time and h the other; l wins if (p_l' - p_l) / p_l > (p_h' - p_h) /
//   p_h', p and p' being throughput now and with one GPU more. O(jobs x GPUs).
//   AFS-P: the same where lengths are not known: the job that has run for fewer epochs counts as the shorter one, ties
//   by submission. That form is ours, after a sketch of the paper; it looks again at the end of each epoch.

#include <vector>

#include "ptc/sched/policies/catalogue.h"
#include "ptc/sched/policies/order/shares_of_gpus.h"

namespace scalai::sched::order {

std::vector<PolicyInfo> marginal_policies();

// The rules by themselves: share `gpus` GPUs among claims that have none; return how many are left. `epochs` (by claim)
// tells the shorter job where lengths are not known; empty = they are.
int share_optimus(int gpus, std::vector<Claim>* claims);
int share_afs(int gpus, const std::vector<double>& epochs, std::vector<Claim>* claims);

}  // namespace scalai::sched::order
