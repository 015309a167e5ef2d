#pragma once
// A policy that is asked at multiples of an interval only, as simulators do that go on in fixed steps: what happens
// between is told to it at the next one. The wrapped policy's own wake-ups are rounded up.

#include <memory>

#include "ptc/sched/policy.h"

namespace scalai::sched {

// `interval_s` > 0.
std::unique_ptr<Policy> at_intervals(std::unique_ptr<Policy> policy, double interval_s);

}  // namespace scalai::sched
