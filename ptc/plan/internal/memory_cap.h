#pragma once
// The memory cap: an order of a plan's instances, and pieces of them, in which no device ever holds much more than it
// has to.
//
// Every element of the new state lies in one instance, which brings it to those that lack it, and after
// whose round those that held the old one and do not keep it give it back. So with
//
//   held(d, t) = before(d) − given back + brought,   limit(d) = max(before(d), after(d)) + cap
//
// an order is right when held stays within the limit during every round. One always exists as long as boxes can be cut:
// if every instance is cut into R equal slices and round r takes slice r of each, held(d, t) lies between before(d) and
// after(d) at the end of every round, and at most brought(d) / R above during one. That order makes many small
// messages, so whole boxes (up to the cap) are tried first, by progress: the box that ends at the fraction f of what
// its device receives runs before those that end later. What does not fit waits for a later round. Smaller boxes
// follow, then the slices, as long as the plan stays below kMostInstances. Parts are counted before any is made, so a
// cap that needs more is refused at once.

#include "ptc/cluster/cluster.h"
#include "ptc/plan/plan_draft.h"

namespace scalai::plan::internal {

inline constexpr int64_t kMostInstances = int64_t{1} << 20;
inline constexpr int64_t kMostRounds = int64_t{1} << 10;  // a smaller cap than this allows is refused

// Orders instances into rounds under plan.memory_cap, cutting boxes where needed. plan.memory has what each device held
// before and holds after. Returns the cap, or, when no order was found for it, the next larger one for which
// there is (within a quarter): the plan then has that order. Rounds are evened out where that makes the plan shorter.
int64_t cap_memory(PlanDraft& plan, const cluster::Cluster& cluster);

}  // namespace scalai::plan::internal
