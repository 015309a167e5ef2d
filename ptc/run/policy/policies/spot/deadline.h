#pragma once
// Spot instances under a deadline: on demand only, spot only, greedy, and Uniform Progress (Wu et al., "Can't Be Late",
// NSDI'24). Jobs are rigid and decide independently: first those that need on demand, then those with GPUs, then the
// others by id.
//
// With e(t) = t C0 / R0 (work C0 and time to the deadline R0 at submission) and d the cost of a change, in this order:
//   1. remaining time < remaining work + 2 d            on demand to the end (safety net; greedy and uniform)
//   2. spot is offered                                  take it, and hold it until it is taken away
//   3. idle and progress <= e(t)                        on demand (uniform; greedy waits for 1)
//   4. on demand, spot offered, progress >= e(t + 2 d)  back to spot (uniform)
// The rules are exact in time: the policy wakes when a condition becomes true. The published form decides at ticks, so
// "<" and "<=" in 3 differ only there. A job without a deadline takes spot if available, else on demand.

#include <memory>
#include <string>

#include "ptc/run/policy/policy.h"

namespace scalai::policy::spot {

enum class DeadlineRule : uint8_t { kOnDemandOnly, kSpotOnly, kGreedy, kUniformProgress };

// `on_demand`: name of a GPU type; "" = the most expensive.
std::unique_ptr<Policy> make_deadline_policy(DeadlineRule rule, const std::string& on_demand);

}  // namespace scalai::policy::spot
