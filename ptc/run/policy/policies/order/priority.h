#pragma once
// `priority`: the job of the largest weight first, as queues with priority classes preempt (Kubernetes' PriorityClass,
// Slurm's PreemptType=preempt/partition_prio). Functions without state.

#include <vector>

#include "ptc/run/policy/policies/catalogue.h"

namespace scalai::policy::order {

std::vector<PolicyInfo> priority_policies();

}  // namespace scalai::policy::order
