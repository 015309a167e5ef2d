#pragma once
// AFS-P (NSDI'21): AFS-L (marginal.h) for unknown lengths. The job with fewer epochs counts as the shorter one, ties by
// submission. This form is ours, after a sketch of the paper; it decides again at the end of each epoch.

#include <vector>

#include "ptc/run/policy/policies/catalogue.h"

namespace scalai::policy::labs {

std::vector<PolicyInfo> afs_p_policies();

}  // namespace scalai::policy::labs
