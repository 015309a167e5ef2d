#pragma once
// Placement α′: which device takes which new rank, so that least has to move.
//
// Ranks that follow one another fill a host (tensor-parallel groups stay inside one when they fit), as in rank order.
// Blocks of ranks go to hosts by an assignment that saves the most bytes from crossing hosts; inside a host, ranks go to
// devices by an assignment that saves the most bytes from moving at all, then keeps the most in place. Both assignments
// are exact up to kExactHosts hosts (Kuhn 1955; shortest augmenting paths, O(n^3)) and greedy beyond. The result is
// compared with rank order by lower_bounds() and is never worse: fewer bytes across hosts, then fewer bytes moved.
// Deterministic; ties go to the lowest id.

#include <vector>

#include "ptc/plan/planner.h"

namespace scalai::plan {

inline constexpr size_t kExactHosts = 256;

// `input.to.device_of_rank` are the devices in rank order: the first of `candidates`. More candidates than ranks leave
// the choice of survivors free. Hosts that offer fewer candidates than a block has ranks take none; where too few hosts
// are left, or ranks do not fill blocks evenly, the answer is rank order.
// Hosts are filled or left: a job that shrinks gives back whole hosts, even where staying on a part of each would move
// less.
std::vector<DeviceId> place(const PlannerInput& input, const std::vector<DeviceId>& candidates);

// Rows to distinct columns so that the sum of benefits is greatest; rows <= columns. Result: column of each row.
std::vector<int> best_assignment(const std::vector<std::vector<int64_t>>& benefit);

}  // namespace scalai::plan
