#pragma once
// PlanDraft: a plan in the making, or a copy of one to be changed. Its fields are those of Plan, which documents them.
// The planner and the reader of plan files fill one and seal it.

#include <string>
#include <vector>

#include "ptc/plan/plan.h"

namespace scalai::plan {

struct PlanDraft {
  std::string planner;
  std::string from, to;
  int64_t from_epoch = 0, to_epoch = 0;
  std::vector<TensorInfo> tensors;
  std::vector<DeviceId> src_devices, dst_devices;
  int32_t rounds = 1;
  int64_t memory_cap = -1;
  std::vector<std::vector<TensorId>> tensor_sets;
  Patterns patterns;
  std::vector<Instance> instances;
  std::vector<Missing> missing;

  ClassBytes bytes;
  ClassBytes lower_bound;
  int64_t lower_bound_any_placement_cross_host = 0;
  int survives_host_losses = 0;
  std::vector<DeviceMemory> memory;

  bool feasible() const { return missing.empty(); }
  const TensorInfo& tensor(TensorId id) const { return tensors[static_cast<size_t>(id.value)]; }
  const std::vector<TensorId>& tensors_of(const Instance& instance) const {
    return tensor_sets[static_cast<size_t>(instance.tensors)];
  }
};

// Takes the digest and returns the plan. Checks nothing: interpret() proves that a plan is right.
Plan seal(PlanDraft draft);

}  // namespace scalai::plan
