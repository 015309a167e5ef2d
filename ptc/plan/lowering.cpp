#include "ptc/plan/lowering.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace scalai::plan {
namespace {

StepKind receiving_kind(TransferClass transfer_class) {
  switch (transfer_class) {
    case TransferClass::kKept: return StepKind::kKeep;
    case TransferClass::kSameDevice: return StepKind::kCopy;
    case TransferClass::kDerived: return StepKind::kDerive;
    case TransferClass::kFromStorage: return StepKind::kLoad;
    default: return StepKind::kReceive;
  }
}

}  // namespace

std::string_view name_of(StepKind kind) {
  static constexpr std::array<std::string_view, 7> kNames = {"keep", "copy",   "send", "receive",
                                                             "load", "derive", "free"};
  return kNames[static_cast<size_t>(kind)];
}

Lowering::Lowering(Plan plan) : plan_(std::move(plan)), instances_(static_cast<size_t>(plan_.patterns().size())) {
  const auto parts_of = [&](int32_t device) -> std::vector<Part>& {
    if (static_cast<size_t>(device) >= parts_.size()) parts_.resize(static_cast<size_t>(device) + 1);
    return parts_[static_cast<size_t>(device)];
  };
  for (int32_t pattern = 0; pattern < plan_.patterns().size(); ++pattern) {
    for (const Leg& leg : plan_.patterns().legs(pattern)) {
      parts_of(leg.dst.value)
          .push_back({pattern, receiving_kind(leg.transfer_class), leg.hop, leg.src, leg.transfer_class});
      const bool sends = leg.src.kind == Location::Kind::kDevice && leg.src.index != leg.dst.value;
      if (sends)
        parts_of(leg.src.index)
            .push_back({pattern, StepKind::kSend, leg.hop, Location::device(leg.dst), leg.transfer_class});
    }
    for (const DeviceId device : plan_.patterns().frees(pattern))
      parts_of(device.value).push_back({pattern, StepKind::kFree, 0, Location::device(device), TransferClass::kKept});
  }
  for (size_t i = 0; i < plan_.instances().size(); ++i)
    instances_[static_cast<size_t>(plan_.instances()[i].pattern)].push_back(static_cast<int32_t>(i));
  for (const std::vector<TensorId>& set : plan_.tensor_sets()) {
    std::vector<int64_t>& bytes = element_bytes_.emplace_back(static_cast<size_t>(kTransferClasses), 0);
    for (const TensorId id : set) {
      for (size_t c = 0; c < bytes.size(); ++c)
        bytes[c] += plan_.tensor(id).element_bytes(static_cast<TransferClass>(c));
    }
  }
}

std::vector<ProgramStep> Lowering::program(DeviceId device) const {
  std::vector<ProgramStep> program;
  if (!device.valid() || static_cast<size_t>(device.value) >= parts_.size()) return program;
  struct Item {
    const Part* part;
    int32_t round, instance;
  };
  std::vector<Item> items;
  for (const Part& part : parts_[static_cast<size_t>(device.value)]) {
    for (const int32_t i : instances_[static_cast<size_t>(part.pattern)])
      items.push_back({&part, plan_.instances()[static_cast<size_t>(i)].round, i});
  }
  const auto step_key = [](const Item& item) {
    return std::tuple(item.round, item.part->kind == StepKind::kFree, item.part->hop, item.part->kind, item.part->peer);
  };
  std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
    return std::tuple_cat(step_key(a), std::tuple(a.instance)) < std::tuple_cat(step_key(b), std::tuple(b.instance));
  });
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    if (i == 0 || step_key(items[i - 1]) != step_key(item)) {
      program.push_back({.kind = item.part->kind,
                         .round = item.round,
                         .hop = item.part->hop,
                         .peer = item.part->peer,
                         .instances = {},
                         .bytes = 0});
    }
    const Instance& instance = plan_.instances()[static_cast<size_t>(item.instance)];
    const std::vector<int64_t>& bytes = element_bytes_[static_cast<size_t>(instance.tensors)];
    program.back().instances.push_back(item.instance);
    program.back().bytes += bytes[static_cast<size_t>(item.part->transfer_class)] * instance.box.volume();
  }
  return program;
}

int32_t last_hop(const Plan& plan, int32_t round) {
  int32_t last = -1;
  for (const Instance& instance : plan.instances()) {
    if (instance.round != round) continue;
    for (const Leg& leg : plan.patterns().legs(instance.pattern)) last = std::max(last, leg.hop);
  }
  return last;
}

std::vector<ProgramStep> lower(const Plan& plan, DeviceId device) { return Lowering(plan).program(device); }

}  // namespace scalai::plan
