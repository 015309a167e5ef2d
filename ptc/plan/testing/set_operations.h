#pragma once
// Plans from lists of operations, for tests that write or spoil plans by hand.

#include <map>
#include <tuple>
#include <vector>

#include "ptc/plan/plan_draft.h"

namespace scalai::plan {

// Replaces patterns and instances by these operations; legs of one box in one round become one instance. `bytes`
// follow; nothing is freed early.
inline void set_operations(PlanDraft& plan, const std::vector<Operation>& operations) {
  std::map<std::tuple<int32_t, TensorId, tensor::Box>, std::vector<Leg>> by_box;
  plan.bytes = {};
  for (const Operation& operation : operations) {
    by_box[{operation.round, operation.tensor, operation.box}].push_back(
        {operation.transfer_class, operation.hop, operation.src, operation.dst});
    plan.bytes.of(operation.transfer_class) += operation.bytes;
  }
  plan.tensor_sets.clear();
  plan.patterns = {};
  plan.instances.clear();
  for (const auto& [key, legs] : by_box) {
    const auto& [round, id, box] = key;
    if (plan.tensor_sets.empty() || plan.tensor_sets.back().front() != id) plan.tensor_sets.push_back({id});
    plan.instances.push_back(
        {round, plan.patterns.add(legs, {}), static_cast<int32_t>(plan.tensor_sets.size()) - 1, box});
  }
}

}  // namespace scalai::plan
