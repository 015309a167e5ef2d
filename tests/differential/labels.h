#pragma once
// The oracle, second part: labels. A label is one element of a tensor at one place.

#include <array>

#include "absl/container/flat_hash_map.h"
#include "ptc/plan/planner.h"
#include "tests/differential/owners.h"

namespace scalai::differential {

using Label = std::array<int, 4>;                // tensor, element, kind of place, place
using Labels = absl::flat_hash_map<Label, int>;  // a time for each
inline Label label(int t, int e, const plan::Location& at) { return {t, e, static_cast<int>(at.kind), at.index}; }

// What a collection puts on its devices.
inline std::vector<Label> labels_of(const collection::Collection& side) {
  std::vector<Label> labels;
  for (int rank = 0; rank < side.ranks(); ++rank) {
    const auto device = plan::Location::device(side.device_of_rank[rank]);
    for (size_t t = 0; t < side.tensors.size(); ++t)
      for (const int e : owned(side, side.tensors[t], rank)) labels.push_back(label(static_cast<int>(t), e, device));
  }
  return labels;
}

inline HostId host_of(const plan::PlannerInput& in, const plan::Location& at) {
  if (at.kind != plan::Location::Kind::kDevice) return HostId(at.index);
  const auto& hosts = in.cluster.hosts;
  const auto before = [&](const cluster::Host& host) { return host.first_device + host.gpus <= at.index; };
  return HostId(std::partition_point(hosts.begin(), hosts.end(), before) - hosts.begin());
}

// What can be read in the old epoch, since time 0. Strategies that stage put what devices hold into hosts' memories.
inline Labels old_epoch(const plan::PlannerInput& in) {
  Labels held;
  if (in.options.sources == plan::SourceRule::kStorage) return held;
  for (const Label& own : labels_of(in.from)) {
    const auto device = plan::Location::device(DeviceId(own[3]));
    const HostId host = in.options.hub.valid() ? in.options.hub : host_of(in, device);
    if (in.residency.lost.contains(DeviceId(own[3]))) continue;
    held[in.options.in_place ? own : label(own[0], own[1], plan::Location::host_memory(host))] = 0;
  }
  for (const auto& [id, box, host] : in.residency.extra)
    for (const int e : elements_of(box, in.from.tensors[id.value].shape))
      held[label(id.value, e, plan::Location::host_memory(host))] = 0;
  return held;
}

// How far an operation really goes. On one device it may be any of three.
inline plan::TransferClass class_of(const plan::PlannerInput& in, const plan::Operation& op) {
  const auto dst = plan::Location::device(op.dst);
  if (op.src == plan::Location::storage()) return plan::TransferClass::kFromStorage;
  if (op.src == dst) return std::min(op.transfer_class, plan::TransferClass::kDerived);
  return host_of(in, op.src) == host_of(in, dst) ? plan::TransferClass::kSameHost : plan::TransferClass::kCrossHost;
}

inline std::vector<plan::Operation> in_order(const plan::Plan& plan) {
  std::vector<plan::Operation> list = plan.operations();
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return std::pair(a.round, a.hop) < std::pair(b.round, b.hop); });
  return list;
}

}  // namespace scalai::differential
