#pragma once
// The order of survival of NSGA-II (Deb et al. 2002) with two objectives. Pure functions; any thread.

#include <cstddef>
#include <vector>

namespace scalai::policy {

struct Individual {
  size_t slot = 0;           // the caller's: where its genes are
  double mean = 0, use = 0;  // both to be maximised
  int rank = 0;              // 0 = no other one is better in both
  double crowding = 0;       // distance to its neighbours along its front
};

// At least as good in both, and better in one.
bool dominates(const Individual& a, const Individual& b);

// Sets rank and crowding of all, and sorts: the lowest rank first, within a rank the largest crowding; ties keep the
// order by falling mean, then by falling use.
void rank(std::vector<Individual>& population);

}  // namespace scalai::policy
