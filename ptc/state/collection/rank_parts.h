#pragma once
// What all ranks of a job hold of a tensor, and which tensors lie alike. Says the same as Collection::pieces() of every
// rank, at the cost of the different parts: a job has many ranks and tensors, and few of either differ. Pure functions.

#include <vector>

#include "ptc/state/collection/collection.h"

namespace scalai::collection {

// A part of a tensor and the ranks that hold it.
struct RankPart {
  tensor::LocalBuffer buffer;      // as pieces() of each of the ranks
  std::vector<LogicalRank> ranks;  // ascending, at least one
};

// One entry for each combination of coordinates that the cuts tell apart, in order of its first rank; ranks that φ
// excludes are in none. Parts may be empty, and two of them may be equal (SplitRule::kGrouped). The collection is
// valid.
std::vector<RankPart> rank_parts(const Collection& collection, TensorId tensor);

// Tensors with the same shape, mesh, cuts and pins: rank_parts() of one of them serves all. Types and kinds may differ.
// In order of the first member, members in order.
std::vector<std::vector<TensorId>> tensors_alike(const Collection& collection);

}  // namespace scalai::collection
