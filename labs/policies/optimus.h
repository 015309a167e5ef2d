#pragma once
// Optimus (EuroSys'18): first the smallest share for each job, shortest remaining time first (the paper does not say);
// then repeatedly one more GPU to the job with the largest t(p) - t(p + 1) per GPU, with t(p) the remaining time on p
// GPUs; until no job gains. Functions without state.

#include <memory>
#include <vector>

#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/order/shares_of_gpus.h"

namespace scalai::policy::labs {

std::vector<PolicyInfo> optimus_policies();

// Who gets the smallest share first: the claim with the smallest value, ties by arrival.
using FirstShare = double (*)(const order::Claim& claim);
double shortest_first(const order::Claim& claim);  // remaining time on the smallest share, in seconds
std::unique_ptr<Policy> make_optimus(FirstShare first);

// The rule alone: divides `gpus` GPUs among claims without a share; returns the number of GPUs left.
int share_optimus(int gpus, FirstShare first, std::vector<order::Claim>* claims);

}  // namespace scalai::policy::labs
