#pragma once
// What the planner has found so far: boxes, tensors and the way they go, before neighbours are merged.

#include <array>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ptc/plan/plan_draft.h"

namespace scalai::plan::internal {

// Collects instances; equal patterns and equal tensor sets get one number.
class Drafts {
 public:
  int32_t pattern(const std::vector<Leg>& legs, const std::vector<DeviceId>& frees = {});
  int32_t pattern(const Leg& leg);
  int32_t tensors(const std::vector<TensorId>& set);
  // Boxes of one pattern and one set become one where they touch, unless they are kept.
  void add(const tensor::Box& box, int32_t tensors, int32_t pattern) {
    instances_.push_back({.round = 0, .pattern = pattern, .tensors = tensors, .box = box});
  }
  // So far, unmerged; their rounds mean nothing yet. References last until the next call that adds.
  const std::vector<Instance>& instances() const { return instances_; }
  std::span<const Leg> legs(int32_t pattern) const { return patterns_.legs(pattern); }
  const std::vector<TensorId>& tensors_of(int32_t set) const { return sets_[static_cast<size_t>(set)]; }
  // The greatest hop of any pattern.
  int32_t last_hop() const;
  // Merges what may be and hands everything to the plan.
  void finish(PlanDraft& plan) &&;

 private:
  Patterns patterns_;
  std::vector<std::vector<TensorId>> sets_;
  std::vector<Instance> instances_;
  absl::flat_hash_map<std::vector<int32_t>, int32_t> known_patterns_, known_sets_;
  absl::flat_hash_map<std::array<int32_t, 4>, int32_t> known_single_;  // patterns of one leg
};

// Numbers patterns and tensor sets in the order in which instances use them and drops the others.
void renumber(PlanDraft& plan);

}  // namespace scalai::plan::internal
