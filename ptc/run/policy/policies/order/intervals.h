#pragma once
// Wraps a policy so that it decides only at multiples of an interval, as in simulators with fixed steps. Events in
// between are delivered at the next multiple, and its wake-ups are rounded up. One thread.

#include <memory>
#include <vector>

#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policy.h"

namespace scalai::policy {

// Owns `policy`. CHECK: interval_s > 0.
std::unique_ptr<Policy> at_intervals(std::unique_ptr<Policy> policy, double interval_s);

// The same policies, each with the parameter "interval": 0 = it decides at each event.
std::vector<PolicyInfo> with_interval(std::vector<PolicyInfo> list);

}  // namespace scalai::policy
