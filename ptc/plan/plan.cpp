#include "ptc/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "ptc/base/hash.h"
#include "ptc/plan/plan_draft.h"

namespace scalai::plan {

std::string Location::str() const {
  switch (kind) {
    case Kind::kDevice: return fmt::format("g{}", index);
    case Kind::kHostMemory: return fmt::format("h{}.mem", index);
    case Kind::kStorage: break;
  }
  return "storage";
}

std::string_view name_of(TransferClass transfer_class) {
  switch (transfer_class) {
    case TransferClass::kKept: return "kept";
    case TransferClass::kSameDevice: return "same_device";
    case TransferClass::kDerived: return "derived";
    case TransferClass::kSameHost: return "same_host";
    case TransferClass::kCrossHost: return "cross_host";
    case TransferClass::kFromStorage: break;
  }
  return "from_storage";
}

int64_t& ClassBytes::of(TransferClass transfer_class) {
  switch (transfer_class) {
    case TransferClass::kKept: return kept;
    case TransferClass::kSameDevice: return same_device;
    case TransferClass::kDerived: return derived;
    case TransferClass::kSameHost: return same_host;
    case TransferClass::kCrossHost: return cross_host;
    case TransferClass::kFromStorage: break;
  }
  return from_storage;
}

int32_t Patterns::add(std::span<const Leg> legs, std::span<const DeviceId> frees) {
  legs_.insert(legs_.end(), legs.begin(), legs.end());
  frees_.insert(frees_.end(), frees.begin(), frees.end());
  leg_ends_.push_back(legs_.size());
  free_ends_.push_back(frees_.size());
  return size() - 1;
}

int64_t TensorInfo::element_bytes(TransferClass transfer_class) const {
  const int64_t now = tensor::size_of(dtype);
  const int64_t before = tensor::size_of(from_dtype);
  switch (transfer_class) {
    case TransferClass::kSameHost:
    case TransferClass::kCrossHost: return std::min(now, before);
    case TransferClass::kFromStorage: return before;
    default: return now;
  }
}

struct Plan::Sealed {
  PlanDraft draft;
  std::string digest;
};

const std::string& Plan::planner() const { return sealed_->draft.planner; }
const std::string& Plan::from() const { return sealed_->draft.from; }
const std::string& Plan::to() const { return sealed_->draft.to; }
int64_t Plan::from_epoch() const { return sealed_->draft.from_epoch; }
int64_t Plan::to_epoch() const { return sealed_->draft.to_epoch; }
const std::vector<DeviceId>& Plan::src_devices() const { return sealed_->draft.src_devices; }
const std::vector<DeviceId>& Plan::dst_devices() const { return sealed_->draft.dst_devices; }
const std::vector<TensorInfo>& Plan::tensors() const { return sealed_->draft.tensors; }
const TensorInfo& Plan::tensor(TensorId id) const { return sealed_->draft.tensor(id); }
bool Plan::feasible() const { return sealed_->draft.feasible(); }
const std::vector<Missing>& Plan::missing() const { return sealed_->draft.missing; }
int32_t Plan::rounds() const { return sealed_->draft.rounds; }
const ClassBytes& Plan::bytes() const { return sealed_->draft.bytes; }
const ClassBytes& Plan::lower_bound() const { return sealed_->draft.lower_bound; }
int64_t Plan::lower_bound_any_placement_cross_host() const {
  return sealed_->draft.lower_bound_any_placement_cross_host;
}
int Plan::survives_host_losses() const { return sealed_->draft.survives_host_losses; }
int64_t Plan::memory_cap() const { return sealed_->draft.memory_cap; }
const std::vector<DeviceMemory>& Plan::memory() const { return sealed_->draft.memory; }
const std::vector<Instance>& Plan::instances() const { return sealed_->draft.instances; }
const std::vector<TensorId>& Plan::tensors_of(const Instance& instance) const {
  return sealed_->draft.tensors_of(instance);
}
const std::vector<std::vector<TensorId>>& Plan::tensor_sets() const { return sealed_->draft.tensor_sets; }
const Patterns& Plan::patterns() const { return sealed_->draft.patterns; }
const std::string& Plan::digest() const { return sealed_->digest; }
const PlanDraft& Plan::draft() const { return sealed_->draft; }

void Plan::for_each_operation(absl::FunctionRef<void(const Operation&)> visit) const {
  for (const Instance& instance : instances()) {
    for (const TensorId id : tensors_of(instance)) {
      for (const Leg& leg : patterns().legs(instance.pattern)) {
        visit({.transfer_class = leg.transfer_class,
               .round = instance.round,
               .hop = leg.hop,
               .tensor = id,
               .box = instance.box,
               .src = leg.src,
               .dst = leg.dst,
               .bytes = instance.box.volume() * tensor(id).element_bytes(leg.transfer_class)});
      }
    }
  }
}

std::vector<Operation> Plan::operations() const {
  std::vector<Operation> list;
  for_each_operation([&](const Operation& operation) { list.push_back(operation); });
  std::sort(list.begin(), list.end(), [](const Operation& a, const Operation& b) {
    return std::tie(a.round, a.tensor, a.box, a.dst, a.src) < std::tie(b.round, b.tensor, b.box, b.dst, b.src);
  });
  return list;
}

namespace {

void add_box(Hasher& hasher, const tensor::Box& box) {
  hasher.add(int64_t{box.rank});
  for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) hasher.add(box.lo[dim]).add(box.hi[dim]);
}

void add_devices(Hasher& hasher, std::span<const DeviceId> devices) {
  hasher.add(static_cast<int64_t>(devices.size()));
  for (const DeviceId device : devices) hasher.add(int64_t{device.value});
}

void add_bytes(Hasher& hasher, const ClassBytes& bytes) {
  hasher.add(bytes.kept).add(bytes.same_device).add(bytes.derived);
  hasher.add(bytes.same_host).add(bytes.cross_host).add(bytes.from_storage);
}

void add_instances(Hasher& hasher, const PlanDraft& plan) {
  hasher.add(static_cast<int64_t>(plan.tensor_sets.size()));
  for (const std::vector<TensorId>& set : plan.tensor_sets) {
    hasher.add(static_cast<int64_t>(set.size()));
    for (const TensorId id : set) hasher.add(int64_t{id.value});
  }
  hasher.add(int64_t{plan.patterns.size()});
  for (int32_t pattern = 0; pattern < plan.patterns.size(); ++pattern) {
    const auto legs = plan.patterns.legs(pattern);
    hasher.add(static_cast<int64_t>(legs.size()));
    for (const Leg& leg : legs) {
      hasher.add(static_cast<int64_t>(leg.transfer_class)).add(int64_t{leg.hop});
      hasher.add(static_cast<int64_t>(leg.src.kind)).add(int64_t{leg.src.index}).add(int64_t{leg.dst.value});
    }
    add_devices(hasher, plan.patterns.frees(pattern));
  }
  hasher.add(static_cast<int64_t>(plan.instances.size()));
  for (const Instance& instance : plan.instances) {
    hasher.add(int64_t{instance.round}).add(int64_t{instance.pattern}).add(int64_t{instance.tensors});
    add_box(hasher, instance.box);
  }
}

std::string digest_of(const PlanDraft& plan) {
  Hasher hasher;
  hasher.add("scalai plan").add(int64_t{Plan::kSchemaVersion}).add(plan.planner).add(plan.from).add(plan.to);
  hasher.add(plan.from_epoch).add(plan.to_epoch).add(static_cast<int64_t>(plan.tensors.size()));
  for (const TensorInfo& tensor : plan.tensors) {
    hasher.add(tensor.name).add(static_cast<int64_t>(tensor.dtype)).add(static_cast<int64_t>(tensor.from_dtype));
    hasher.add(int64_t{tensor.derived_from.value});
    add_box(hasher, tensor::Box::whole(tensor.shape));
  }
  add_devices(hasher, plan.src_devices);
  add_devices(hasher, plan.dst_devices);
  hasher.add(int64_t{plan.rounds}).add(plan.memory_cap);
  add_instances(hasher, plan);
  hasher.add(static_cast<int64_t>(plan.missing.size()));
  for (const Missing& missing : plan.missing) {
    hasher.add(int64_t{missing.tensor.value});
    add_box(hasher, missing.box);
  }
  add_bytes(hasher, plan.bytes);
  add_bytes(hasher, plan.lower_bound);
  hasher.add(plan.lower_bound_any_placement_cross_host).add(int64_t{plan.survives_host_losses});
  hasher.add(static_cast<int64_t>(plan.memory.size()));
  for (const DeviceMemory& memory : plan.memory) {
    hasher.add(int64_t{memory.device.value}).add(memory.before).add(memory.after).add(memory.peak_extra);
  }
  return hasher.hex();
}

}  // namespace

Plan seal(PlanDraft draft) {
  std::string digest = digest_of(draft);
  return Plan(std::make_shared<const Plan::Sealed>(Plan::Sealed{std::move(draft), std::move(digest)}));
}

}  // namespace scalai::plan
