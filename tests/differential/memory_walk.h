#pragma once
// The oracle, third part: what every device's memory holds round by round.

#include <map>

#include "tests/differential/labels.h"

namespace scalai::differential {

// Whether only what is held is freed, once, neither kept nor read later, and the plan's DeviceMemory is what comes of
// it.
inline bool memory_is_true(const plan::Plan& plan, const plan::PlannerInput& in, const Labels& held) {
  const auto old_size = [&](int t) { return tensor::size_of(in.from.tensors[t].dtype); };
  const auto new_size = [&](int t) { return tensor::size_of(in.to.tensors[t].dtype); };
  std::map<int, std::map<int, int64_t>> changes;  // by device: bytes by round that sees them first; −1: the old epoch
  std::map<int, int64_t> after;
  const auto lives = [&](int device) { return !in.residency.lost.contains(DeviceId(device)); };
  for (const auto* devices : {&in.from.device_of_rank, &in.to.device_of_rank})
    for (const DeviceId device : *devices)
      if (lives(device.value)) changes[device.value][-1] = 0;
  for (const Label& own : labels_of(in.from))
    if (lives(own[3])) changes[own[3]][-1] += old_size(own[0]);
  for (const Label& own : labels_of(in.to)) after[own[3]] += new_size(own[0]);
  Labels freed;
  bool right = true;
  for (const plan::Instance& instance : plan.instances()) {
    for (const TensorId id : plan.tensor_sets()[instance.tensors]) {
      const std::vector<int> elements = elements_of(instance.box, in.from.tensors[id.value].shape);
      for (const DeviceId device : plan.patterns().frees(instance.pattern)) {
        changes[device.value][instance.round + 1] -= std::ssize(elements) * old_size(id.value);
        for (const int e : elements) {
          const Label at = label(id.value, e, plan::Location::device(device));
          right = right && plan.memory_cap() >= 0 && held.contains(at) && freed.emplace(at, instance.round).second;
        }
      }
    }
  }
  for (const plan::Operation& op : plan.operations()) {
    const bool kept = op.transfer_class == plan::TransferClass::kKept;
    const std::vector<int> elements = elements_of(op.box, in.to.tensors[op.tensor.value].shape);
    if (!kept) changes[op.dst.value][op.round] += std::ssize(elements) * new_size(op.tensor.value);
    for (const int e : elements) {
      const auto gone = op.hop > 0 ? freed.end() : freed.find(label(op.tensor.value, e, op.src));
      right = right && (gone == freed.end() || (gone->second >= op.round && !kept));
    }
  }
  std::vector<plan::DeviceMemory> memory;
  for (const auto& [device, rounds] : changes) {
    const int64_t before = rounds.at(-1), larger = std::max(before, after[device]);
    int64_t now = 0, most = larger;
    for (const auto& [round, bytes] : rounds) most = std::max(most, now += bytes);
    memory.push_back({DeviceId(device), before, after[device], most - larger});
    right = right && (plan.memory_cap() < 0 || most - larger <= plan.memory_cap());
  }
  return right && plan.memory() == memory;
}

}  // namespace scalai::differential
