#include "ptc/plan/internal/plan_facts.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::plan::internal {
namespace {

using collection::LogicalTensor;
using tensor::Box;

bool same_tensor(const LogicalTensor& a, const LogicalTensor& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape;
}

bool as_planned(const LogicalTensor& a, const TensorInfo& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape;
}

bool inside(const Box& box, const tensor::Shape& shape) {
  if (box.rank != shape.rank()) return false;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    const auto d = static_cast<size_t>(dim);
    if (box.lo[d] < 0 || box.lo[d] >= box.hi[d] || box.hi[d] > shape[dim]) return false;
  }
  return true;
}

}  // namespace

absl::Status Problems::status() const {
  if (none()) return absl::OkStatus();
  return invalid(fmt::format("the plan is wrong:\n{}", fmt::join(lines_, "\n")));
}

PlanFacts::PlanFacts(const Plan& plan, const InterpreterInput& input, Problems& problems)
    : plan_(plan), input_(input), problems_(problems) {
  check_frame();
  if (!problems.none()) return;
  for (size_t i = 0; i < plan.operations.size(); ++i) check_operation(i);
  for (const Missing& missing : plan.missing) {
    if (inside_its_tensor(missing.tensor, missing.box)) continue;
    problems.add(fmt::format("missing tensor {}: the box is empty or not inside its tensor",
                             name_of_box(missing.tensor, missing.box)));
  }
  ClassBytes sums;
  for (const Operation& operation : plan.operations) sums.of(operation.transfer_class) += operation.bytes;
  if (!(sums == plan.bytes)) problems.add("the plan's bytes by class are not the sums over its operations");
}

void PlanFacts::check_frame() {
  const auto& from = input_.from.tensors;
  const auto& to = input_.to.tensors;
  if (!std::equal(from.begin(), from.end(), to.begin(), to.end(), same_tensor)) {
    problems_.add("the old and the new collection do not hold the same tensors");
  }
  if (!std::equal(to.begin(), to.end(), plan_.tensors.begin(), plan_.tensors.end(), as_planned)) {
    problems_.add("the plan's tensors are not those of the collections");
  }
  if (plan_.src_devices != input_.from.device_of_rank)
    problems_.add("the plan's old devices are not those of the collection");
  if (plan_.dst_devices != input_.to.device_of_rank)
    problems_.add("the plan's new devices are not those of the collection");
  for (const auto* devices : {&input_.from.device_of_rank, &input_.to.device_of_rank}) {
    for (const DeviceId device : *devices) {
      if (device.value >= 0 && device.value < input_.cluster.device_count()) continue;
      problems_.add(fmt::format("device {} is not in the cluster", device.value));
    }
  }
}

std::string PlanFacts::name_of_operation(size_t index) const {
  const Operation& operation = plan_.operations[index];
  return fmt::format("operation {} ({}, tensor {}, {} -> g{})", index, name_of(operation.transfer_class),
                     name_of_box(operation.tensor, operation.box), operation.src.str(), operation.dst.value);
}

std::string PlanFacts::name_of_box(TensorId tensor, const Box& box) const {
  const bool known = tensor.valid() && static_cast<size_t>(tensor.value) < plan_.tensors.size();
  return known ? fmt::format("\"{}\" {}", plan_.tensors[static_cast<size_t>(tensor.value)].name, box.str())
               : fmt::format("number {} {}", tensor.value, box.str());
}

bool PlanFacts::inside_its_tensor(TensorId tensor, const Box& box) const {
  return tensor.valid() && static_cast<size_t>(tensor.value) < plan_.tensors.size() &&
         inside(box, plan_.tensors[static_cast<size_t>(tensor.value)].shape);
}

void PlanFacts::check_operation(size_t index) {
  const Operation& operation = plan_.operations[index];
  const auto wrong = [&](const std::string& why) { problems_.add(name_of_operation(index) + ": " + why); };
  if (!inside_its_tensor(operation.tensor, operation.box)) return wrong("the box is empty or not inside its tensor");
  if (std::find(plan_.dst_devices.begin(), plan_.dst_devices.end(), operation.dst) == plan_.dst_devices.end()) {
    return wrong("the destination is not a device of the new collection");
  }
  if (operation.round < 0 || operation.round >= plan_.rounds)
    wrong(fmt::format("there is no round {}", operation.round));
  const bool local =
      operation.transfer_class == TransferClass::kKept || operation.transfer_class == TransferClass::kSameDevice;
  if (operation.hop < 0 || (operation.hop > 0 && local))
    wrong(fmt::format("hop {} makes no sense here", operation.hop));
  int64_t bytes = tensor::size_of(plan_.tensors[static_cast<size_t>(operation.tensor.value)].dtype);
  for (int dim = 0; dim < operation.box.rank; ++dim) bytes *= operation.box.extent(dim);
  if (bytes != operation.bytes) wrong(fmt::format("its box is {} bytes, the plan says {}", bytes, operation.bytes));
  if (!source_exists(operation.src)) return wrong("there is no such source");
  if (!class_is_true(operation)) wrong("the class is not true");
}

bool PlanFacts::source_exists(const Location& src) const {
  switch (src.kind) {
    case Location::Kind::kDevice: return src.index >= 0 && src.index < input_.cluster.device_count();
    case Location::Kind::kHostMemory:
      return src.index >= 0 && src.index < static_cast<int>(input_.cluster.hosts.size());
    case Location::Kind::kStorage: return true;
  }
  return false;
}

bool PlanFacts::class_is_true(const Operation& operation) const {
  const Location& src = operation.src;
  const bool storage = src.kind == Location::Kind::kStorage;
  const bool own = src == Location::device(operation.dst);
  switch (operation.transfer_class) {
    case TransferClass::kKept: return own && operation.round == 0;
    case TransferClass::kSameDevice: return own;
    case TransferClass::kFromStorage: return storage;
    case TransferClass::kSameHost: return !storage && !own && on_host_of(src, operation.dst);
    case TransferClass::kCrossHost: return !storage && !on_host_of(src, operation.dst);
  }
  return false;
}

bool PlanFacts::on_host_of(const Location& src, DeviceId dst) const {
  const HostId host =
      src.kind == Location::Kind::kDevice ? input_.cluster.host_of(DeviceId(src.index)) : HostId(src.index);
  return host == input_.cluster.host_of(dst);
}

bool staged_in(const Plan& plan, const Cluster& cluster, DeviceId device, HostId host) {
  return plan.planner == "central" || cluster.host_of(device) == host;
}

}  // namespace scalai::plan::internal
