#pragma once
// Random planning cases of the differential test: two collections of the same tensors in different conventions, a
// cluster, what survives, and how to plan. A case follows from its seed alone.

#include <cstdint>
#include <string>

#include "ptc/plan/planner.h"

namespace scalai::differential {

struct DifferentialCase {
  uint64_t seed = 0;
  int drawn = 0;  // pairs of collections until both were valid
  collection::Collection from, to;
  cluster::Cluster cluster;
  collection::Residency residency;
  plan::PlannerOptions options;

  plan::PlannerInput input() const { return {from, to, cluster, residency, options}; }
  int64_t elements() const;  // of all tensors
  std::string str() const;   // all of it, collections as files
};

// Tensors of rank 0 to 4 with extents 0 to 97 and at most kMostElements in all, one to twelve ranks on a side, one to
// three axes a mesh, every split rule; lost devices, redundant copies, storage, changed types and all planner options.
inline constexpr int64_t kMostElements = 20'000;
DifferentialCase make_case(uint64_t seed);
// The same where everything lives and no type changes, so that the way back leads to the start.
DifferentialCase make_round_trip(uint64_t seed);

// Seed of the case with this number in a run.
uint64_t seed_of_case(uint64_t run_seed, uint64_t number);

}  // namespace scalai::differential
