#pragma once
// Plans changed by hand, for the tests of the interpreters.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ptc/plan/plan_draft.h"
#include "ptc/plan/testing/support.h"

namespace scalai::plan {

// Plan::memory as it has to be for the plan's instances: what pieces say, and a walk over the rounds. Ignores devices
// that have no place in it.
inline void fill_memory(PlanDraft& plan, const Case& job) {
  std::map<DeviceId, DeviceMemory> memory;
  const auto add = [&](const collection::Collection& side, int64_t DeviceMemory::*bytes) {
    for (int rank = 0; rank < side.ranks(); ++rank) {
      const DeviceId device = side.device_of_rank[static_cast<size_t>(rank)];
      if (job.residency.lost.contains(device)) continue;
      memory[device].device = device;
      for (size_t i = 0; i < side.tensors.size(); ++i) {
        for (const auto& piece : side.pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces)
          memory[device].*bytes += piece.box.volume() * tensor::size_of(side.tensors[i].dtype);
      }
    }
  };
  add(job.from, &DeviceMemory::before);
  add(job.to, &DeviceMemory::after);
  std::map<DeviceId, std::map<int32_t, std::pair<int64_t, int64_t>>> changes;  // by round: brought, freed
  for (const Instance& instance : plan.instances) {
    for (const TensorId id : plan.tensors_of(instance)) {
      const TensorInfo& tensor = plan.tensor(id);
      for (const Leg& leg : plan.patterns.legs(instance.pattern)) {
        if (leg.transfer_class != TransferClass::kKept)
          changes[leg.dst][instance.round].first += instance.box.volume() * tensor::size_of(tensor.dtype);
      }
      for (const DeviceId device : plan.patterns.frees(instance.pattern))
        changes[device][instance.round].second += instance.box.volume() * tensor::size_of(tensor.from_dtype);
    }
  }
  plan.memory.clear();
  for (auto& [device, one] : memory) {
    int64_t held = one.before;
    for (const auto& [round, change] : changes[device]) {
      held += change.first;
      one.peak_extra = std::max(one.peak_extra, held - std::max(one.before, one.after));
      held -= change.second;
    }
    plan.memory.push_back(one);
  }
}

inline void fill_bytes(PlanDraft& plan) {
  plan.bytes = {};
  seal(plan).for_each_operation(
      [&](const Operation& operation) { plan.bytes.of(operation.transfer_class) += operation.bytes; });
}

// Gives one instance a pattern of its own.
inline void set_pattern(PlanDraft& plan, size_t instance, const std::vector<Leg>& legs,
                        const std::vector<DeviceId>& frees) {
  plan.instances[instance].pattern = plan.patterns.add(legs, frees);
}
inline std::vector<Leg> legs_of(const PlanDraft& plan, size_t instance) {
  const auto legs = plan.patterns.legs(plan.instances[instance].pattern);
  return {legs.begin(), legs.end()};
}
inline std::vector<DeviceId> frees_of(const PlanDraft& plan, size_t instance) {
  const auto frees = plan.patterns.frees(plan.instances[instance].pattern);
  return {frees.begin(), frees.end()};
}

// The indices of all instances for which `wanted` is true; one of them, or nothing when there is none.
template <class Wanted>
std::vector<size_t> instances_where(const PlanDraft& plan, Wanted wanted) {
  std::vector<size_t> found;
  for (size_t i = 0; i < plan.instances.size(); ++i) {
    if (wanted(i)) found.push_back(i);
  }
  return found;
}

inline bool has_class(const PlanDraft& plan, size_t instance, TransferClass transfer_class) {
  const auto legs = plan.patterns.legs(plan.instances[instance].pattern);
  return std::any_of(legs.begin(), legs.end(), [&](const Leg& leg) { return leg.transfer_class == transfer_class; });
}

// Eight layers with a bf16 parameter each, cut over tp, and its fp32 master and moment, which are also cut over dp;
// ranks in the order tp, dp, pp.
inline collection::Collection state_collection(const Sizes& sizes, const std::vector<DeviceId>& devices) {
  using model::StateKind;
  std::vector<collection::LogicalTensor> tensors;
  for (int layer = 0; layer < 8; ++layer) {
    const std::string name = "layers." + std::to_string(layer);
    const std::vector<collection::Pin> stage = {{"pp", {layer * sizes.pp / 8}}};
    const auto add = [&](const std::string& suffix, StateKind kind, std::vector<tensor::Cut> cuts) {
      tensors.push_back(tensor_of(name + suffix, {13, 3}, std::move(cuts), stage));
      tensors.back().kind = kind;
      tensors.back().dtype = kind == StateKind::kParam ? tensor::DType::kBF16 : tensor::DType::kF32;
    };
    const auto flat = [] { return cut_over("dp", tensor::Cut::kFlat); };
    add("", StateKind::kParam, {cut_over("tp", 0)});
    add(".master", StateKind::kMaster, {cut_over("tp", 0), flat()});
    add(".exp_avg", StateKind::kExpAvg, {cut_over("tp", 0), flat()});
  }
  collection::Collection collection =
      collection_of({{"tp", sizes.tp}, {"dp", sizes.dp}, {"pp", sizes.pp}}, devices, std::move(tensors));
  collection.name = sizes.str();
  return collection;
}

}  // namespace scalai::plan
