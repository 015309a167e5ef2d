#pragma once
// The geometry of a change: which part of which new box lies in which old box, who holds it and who wants it. What the
// planner, the bounds and the placement all start from; done once, tensors alike together.

#include <cstdint>
#include <vector>

#include "ptc/plan/internal/spread.h"
#include "ptc/plan/planner.h"

namespace scalai::plan::internal {

// The common part of an old and a new box, or a part of a new box that no living device holds. Over all overlaps of a
// tensor every element of the new collection appears once, except as kLocal says.
struct Overlap {
  tensor::Box box;
  int32_t holders = -1;  // old_sets; −1: no device holds it
  int32_t wanting = 0;   // new_sets
  int32_t masters = -1;  // new_sets: devices on which all of it can be derived from the new master; −1 = none
  int32_t copies = -1;   // copy_hosts: hosts whose memory has a redundant copy of all of it; −1 = none
  bool whole = false;    // `box` is the old and the new box: who holds it and wants it can keep it
  // A common part that copies or masters cut further appears uncut once, for devices that hold it (kLocal), and then
  // cut, for the others (kRemote).
  enum class Side : uint8_t { kBoth, kLocal, kRemote };
  Side side = Side::kBoth;
};

struct GroupDifference {
  std::vector<TensorId> tensors;
  std::vector<Overlap> overlaps;
};

struct Difference {
  DeviceSets old_sets, new_sets;              // living devices on the old side
  std::vector<int64_t> old_bytes, new_bytes;  // by set: bytes of all the boxes that these devices hold, of all tensors
  std::vector<std::vector<HostId>> copy_hosts;  // ascending
  std::vector<GroupDifference> groups;
  // For each tensor: the one it may be derived from (PlannerOptions::derive_params), else none.
  std::vector<TensorId> derived_from;
};

bool is_floating(tensor::DType dtype);

// CHECK: both sides have the same tensors. With SourceRule::kStorage no device and no copy holds anything.
Difference difference_of(const PlannerInput& input);

}  // namespace scalai::plan::internal
