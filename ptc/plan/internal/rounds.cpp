#include "ptc/plan/internal/rounds.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace scalai::plan::internal {
namespace {

// Instances of one tensor each, so that tensors alike can run in different rounds.
std::vector<Instance> one_by_one(PlanDraft& plan) {
  std::map<TensorId, int32_t> alone;
  std::vector<Instance> instances;
  std::vector<std::vector<TensorId>> sets;
  for (const Instance& instance : plan.instances) {
    for (const TensorId id : plan.tensors_of(instance)) {
      const auto [set, fresh] = alone.try_emplace(id, static_cast<int32_t>(sets.size()));
      if (fresh) sets.push_back({id});
      instances.push_back({instance.round, instance.pattern, set->second, instance.box});
    }
  }
  plan.tensor_sets = std::move(sets);
  return instances;
}

}  // namespace

int64_t new_bytes(const PlanDraft& plan, const Instance& instance) {
  int64_t size = 0;
  for (const TensorId id : plan.tensors_of(instance)) size += tensor::size_of(plan.tensor(id).dtype);
  return size * instance.box.volume();
}

int64_t old_bytes(const PlanDraft& plan, const Instance& instance) {
  int64_t size = 0;
  for (const TensorId id : plan.tensors_of(instance)) size += tensor::size_of(plan.tensor(id).from_dtype);
  return size * instance.box.volume();
}

void leave_first(PlanDraft& plan, const std::set<DeviceId>& leaving) {
  const auto any_leg = [&](const Instance& instance, const auto& is_such) {
    const auto legs = plan.patterns.legs(instance.pattern);
    return std::any_of(legs.begin(), legs.end(), is_such);
  };
  const auto reads = [&](const Instance& instance) {
    return any_leg(instance, [&](const Leg& leg) {
      return leg.src.kind == Location::Kind::kDevice && leaving.contains(DeviceId(leg.src.index));
    });
  };
  const auto moves = [&](const Instance& instance) {
    return any_leg(instance, [](const Leg& leg) { return leg.src != Location::device(leg.dst); });
  };
  const auto rest = std::stable_partition(plan.instances.begin(), plan.instances.end(), reads);
  if (rest == plan.instances.begin() || std::none_of(rest, plan.instances.end(), moves)) return;
  plan.rounds = 2;
  std::for_each(rest, plan.instances.end(), [&](Instance& instance) { instance.round = moves(instance) ? 1 : 0; });
}

void cap_rounds(PlanDraft& plan, int64_t round_bytes) {
  plan.rounds = 1;
  plan.instances = one_by_one(plan);
  struct Open {
    int32_t round = 0;
    int64_t filled = 0;
  };
  std::map<DeviceId, Open> open;
  for (Instance& instance : plan.instances) {
    const int64_t bytes = new_bytes(plan, instance);
    const auto legs = plan.patterns.legs(instance.pattern);
    int32_t round = 0;
    for (const Leg& leg : legs) {
      if (!brings(leg)) continue;
      const Open& at = open[leg.dst];
      round = std::max(round, at.filled > 0 && at.filled + bytes > round_bytes ? at.round + 1 : at.round);
    }
    for (const Leg& leg : legs) {
      if (!brings(leg)) continue;
      Open& at = open[leg.dst];
      at = {round, (round > at.round ? 0 : at.filled) + bytes};
    }
    instance.round = round;
    plan.rounds = std::max(plan.rounds, round + 1);
  }
}

void derive_last(PlanDraft& plan) {
  const auto derives = [&](const Instance& instance) {
    const auto legs = plan.patterns.legs(instance.pattern);
    return !legs.empty() && legs.front().transfer_class == TransferClass::kDerived;
  };
  if (std::none_of(plan.instances.begin(), plan.instances.end(), derives)) return;
  if (plan.memory_cap >= 0) ++plan.rounds;
  for (Instance& instance : plan.instances) {
    if (derives(instance)) instance.round = plan.rounds - 1;
  }
}

int64_t measure_memory(PlanDraft& plan) {
  const DeviceIndex index(plan.memory);
  std::vector<const Instance*> order;
  for (const Instance& instance : plan.instances) order.push_back(&instance);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->round < b->round; });
  std::vector<int64_t> held;
  for (DeviceMemory& memory : plan.memory) {
    memory.peak_extra = 0;
    held.push_back(memory.before);
  }
  int64_t largest = 0;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    std::vector<std::pair<size_t, int64_t>> freed;
    for (; end < order.size() && order[end]->round == order[begin]->round; ++end) {
      const Instance& instance = *order[end];
      const int64_t bytes = new_bytes(plan, instance);
      for (const Leg& leg : plan.patterns.legs(instance.pattern)) {
        if (!brings(leg)) continue;
        const size_t device = index[leg.dst];
        held[device] += bytes;
        DeviceMemory& memory = plan.memory[device];
        memory.peak_extra = std::max(memory.peak_extra, held[device] - std::max(memory.before, memory.after));
        largest = std::max(largest, memory.peak_extra);
      }
      for (const DeviceId device : plan.patterns.frees(instance.pattern))
        freed.emplace_back(index[device], old_bytes(plan, instance));
    }
    for (const auto& [device, bytes] : freed) held[device] -= bytes;
  }
  return largest;
}

void sort_instances(PlanDraft& plan) {
  std::sort(plan.instances.begin(), plan.instances.end(), [&](const Instance& a, const Instance& b) {
    return std::tuple(a.round, plan.tensors_of(a).front(), a.box, a.pattern, a.tensors) <
           std::tuple(b.round, plan.tensors_of(b).front(), b.box, b.pattern, b.tensors);
  });
}

}  // namespace scalai::plan::internal
