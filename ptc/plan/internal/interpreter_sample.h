#pragma once
// Some devices of a plan on their own, with every tensor: what a device holds and needs is asked of the collections
// rank by rank, and nothing is taken from one tensor for another. The second leg of the interpreter for plans in which
// tensors alike are looked at once.

#include <vector>

#include "ptc/plan/internal/interpreter_device.h"

namespace scalai::plan::internal {

// `count` of the devices in Plan::memory, or all when there are no more; sorted.
std::vector<DeviceId> draw_devices(const Plan& plan, int count, uint64_t seed);

// Of each device: every box that reaches it, leaves it or is freed on it (DeviceCheck), that the other devices it reads
// from hold what they send on hop 0, and its memory. The plan has no problems that plan_facts.h names.
void check_devices(const Plan& plan, const InterpreterInput& input, const PlanFacts& facts,
                   const std::vector<DeviceId>& devices, Problems& problems);

}  // namespace scalai::plan::internal
