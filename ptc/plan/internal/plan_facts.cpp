#include "ptc/plan/internal/plan_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptc/base/status.h"

namespace scalai::plan::internal {
namespace {

using collection::LogicalTensor;
using tensor::Box;

bool same_tensor(const LogicalTensor& a, const LogicalTensor& b) { return a.name == b.name && a.shape == b.shape; }

bool floating(tensor::DType dtype) {
  using tensor::DType;
  return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF32 || dtype == DType::kF64;
}

bool inside(const Box& box, const tensor::Shape& shape) {
  if (box.rank != shape.rank()) return false;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    const auto d = static_cast<size_t>(dim);
    if (box.lo[d] < 0 || box.lo[d] >= box.hi[d] || box.hi[d] > shape[dim]) return false;
  }
  return true;
}

bool has_class(std::span<const Leg> legs, TransferClass transfer_class) {
  return std::any_of(legs.begin(), legs.end(), [&](const Leg& leg) { return leg.transfer_class == transfer_class; });
}

}  // namespace

absl::Status Problems::status() const {
  if (none()) return absl::OkStatus();
  return invalid(fmt::format("the plan is wrong:\n{}", fmt::join(lines_, "\n")));
}

PlanFacts::PlanFacts(const Plan& plan, const InterpreterInput& input, Problems& problems)
    : plan_(plan), input_(input), problems_(problems) {
  check_frame();
  if (problems.none()) check_sets();
  if (!problems.none()) return;
  check_missing();
  for (size_t i = 0; i < plan.instances().size() && !problems.full(); ++i) check_instance(i);
  if (!problems.none()) return;
  for (int32_t i = 0; i < plan.patterns().size() && !problems.full(); ++i) check_pattern(i);
  check_sums();
}

// --- The frame -------------------------------------------------------------------------------------------------------

void PlanFacts::check_frame() {
  const auto& from = input_.from.tensors;
  const auto& to = input_.to.tensors;
  if (!std::equal(from.begin(), from.end(), to.begin(), to.end(), same_tensor)) {
    return problems_.add("the old and the new collection do not hold the same tensors");
  }
  if (plan_.tensors().size() != to.size()) return problems_.add("the plan's tensors are not those of the collections");
  for (size_t i = 0; i < to.size() && !problems_.full(); ++i) check_tensor(i);
  check_devices();
  if (plan_.rounds() < 1) problems_.add(fmt::format("the plan has {} rounds", plan_.rounds()));
  if (problems_.none()) check_memory_list();
}

void PlanFacts::check_devices() {
  if (plan_.src_devices() != input_.from.device_of_rank)
    problems_.add("the plan's old devices are not those of the collection");
  if (plan_.dst_devices() != input_.to.device_of_rank)
    problems_.add("the plan's new devices are not those of the collection");
  const int count = input_.cluster.device_count();
  old_living_.assign(static_cast<size_t>(count), false);
  new_device_.assign(static_cast<size_t>(count), false);
  const auto mark = [&](const std::vector<DeviceId>& devices, std::vector<bool>& marks) {
    for (const DeviceId device : devices) {
      if (device.value < 0 || device.value >= count) {
        problems_.add(fmt::format("device {} is not in the cluster", device.value));
      } else if (marks[static_cast<size_t>(device.value)]) {
        problems_.add(fmt::format("device {} has two ranks", device.value));
      } else {
        marks[static_cast<size_t>(device.value)] = true;
      }
    }
  };
  mark(plan_.src_devices(), old_living_);
  mark(plan_.dst_devices(), new_device_);
  for (const DeviceId lost : input_.residency.lost) {
    if (lost.value < 0 || lost.value >= count) continue;
    old_living_[static_cast<size_t>(lost.value)] = false;
  }
}

void PlanFacts::check_tensor(size_t index) {
  const LogicalTensor& before = input_.from.tensors[index];
  const LogicalTensor& after = input_.to.tensors[index];
  const TensorInfo& info = plan_.tensors()[index];
  const auto wrong = [&](std::string_view why) {
    problems_.add(fmt::format("tensor {} (\"{}\"): {}", index, after.name, why));
  };
  if (info.name != after.name || info.shape != after.shape || info.dtype != after.dtype ||
      info.from_dtype != before.dtype) {
    return wrong("the plan's tensors are not those of the collections");
  }
  if (before.dtype != after.dtype && !(floating(before.dtype) && floating(after.dtype)))
    wrong("its type changes, but not between floating types");
  for (int i = 0; i < kTransferClasses; ++i) {
    const auto one = static_cast<TransferClass>(i);
    if (info.element_bytes(one) != element_bytes(TensorId(static_cast<int64_t>(index)), one))
      wrong(fmt::format("the plan counts {} bytes an element as {}", info.element_bytes(one), name_of(one)));
  }
  if (info.derived_from == TensorId()) return;
  if (!known(info.derived_from)) return wrong("there is no tensor that it can be derived from");
  const LogicalTensor& master = input_.to.tensors[static_cast<size_t>(info.derived_from.value)];
  const bool derivable = after.kind == model::StateKind::kParam && master.kind == model::StateKind::kMaster &&
                         master.name == after.name + ".master" && master.shape == after.shape &&
                         floating(after.dtype) && floating(master.dtype) &&
                         tensor::size_of(master.dtype) > tensor::size_of(after.dtype);
  if (!derivable) wrong(fmt::format("\"{}\" is not its master", master.name));
}

void PlanFacts::check_memory_list() {
  std::vector<DeviceId> living;
  for (size_t i = 0; i < new_device_.size(); ++i) {
    if (new_device_[i] || old_living_[i]) living.emplace_back(static_cast<int64_t>(i));
  }
  const bool same = std::equal(living.begin(), living.end(), plan_.memory().begin(), plan_.memory().end(),
                               [](DeviceId device, const DeviceMemory& memory) { return device == memory.device; });
  if (!same) problems_.add("the plan's memory is not that of the living devices, in order");
  for (const DeviceMemory& memory : plan_.memory()) {
    if (plan_.memory_cap() < 0 || memory.peak_extra <= plan_.memory_cap()) continue;
    problems_.add(fmt::format("the memory of g{}: a peak of {} bytes is above the cap of {}", memory.device.value,
                              memory.peak_extra, plan_.memory_cap()));
  }
}

void PlanFacts::check_missing() {
  for (const Missing& missing : plan_.missing()) {
    if (inside_its_tensor(missing.tensor, missing.box)) continue;
    problems_.add(fmt::format("missing tensor {}: the box is empty or not inside its tensor",
                              name_of_box(missing.tensor, missing.box)));
  }
}

// --- Sets, patterns, instances ---------------------------------------------------------------------------------------

void PlanFacts::check_sets() {
  for (size_t i = 0; i < plan_.tensor_sets().size() && !problems_.full(); ++i) {
    const std::vector<TensorId>& set = plan_.tensor_sets()[i];
    const auto wrong = [&](std::string_view why) { problems_.add(fmt::format("tensor set {}: {}", i, why)); };
    if (set.empty()) {
      wrong("it is empty");
    } else if (!std::all_of(set.begin(), set.end(), [&](TensorId id) { return known(id); })) {
      wrong("it has a tensor that is not there");
    } else if (!std::all_of(set.begin(), set.end(),
                            [&](TensorId id) { return plan_.tensor(id).shape == plan_.tensor(set.front()).shape; })) {
      wrong("its tensors differ in shape");
    }
  }
}

void PlanFacts::check_instance(size_t index) {
  const Instance& instance = plan_.instances()[index];
  const auto wrong = [&](const std::string& why) { problems_.add(fmt::format("instance {}: {}", index, why)); };
  if (instance.tensors < 0 || static_cast<size_t>(instance.tensors) >= plan_.tensor_sets().size())
    return wrong(fmt::format("there is no tensor set {}", instance.tensors));
  if (instance.pattern < 0 || instance.pattern >= plan_.patterns().size())
    return wrong(fmt::format("there is no pattern {}", instance.pattern));
  const std::vector<TensorId>& set = plan_.tensors_of(instance);
  const std::string name = fmt::format("tensor {}", name_of_box(set.front(), instance.box));
  if (!inside_its_tensor(set.front(), instance.box)) return wrong(name + ": the box is empty or not inside its tensor");
  if (instance.round < 0 || instance.round >= plan_.rounds())
    wrong(fmt::format("{}: there is no round {}", name, instance.round));
  const auto legs = plan_.patterns().legs(instance.pattern);
  const bool keeps = has_class(legs, TransferClass::kKept);
  if (keeps && instance.round != 0) wrong(name + ": what is kept is in round 0");
  const bool derives = has_class(legs, TransferClass::kDerived);
  for (const TensorId id : set) {
    const TensorInfo& tensor = plan_.tensor(id);
    if (keeps && tensor.dtype != tensor.from_dtype)
      wrong(fmt::format("tensor {}: kept, but its type changes", name_of_box(id, instance.box)));
    if (derives && !tensor.derived_from.valid())
      wrong(fmt::format("tensor {}: derived, but it has no master", name_of_box(id, instance.box)));
  }
}

void PlanFacts::check_pattern(int32_t pattern) {
  for (const Leg& leg : plan_.patterns().legs(pattern)) {
    const std::string problem = problem_of(leg);
    if (!problem.empty()) problems_.add(fmt::format("{}: {}", use_of(pattern, &leg, leg.dst), problem));
  }
  check_frees(pattern);
}

void PlanFacts::check_frees(int32_t pattern) {
  std::set<DeviceId> seen;
  for (const DeviceId device : plan_.patterns().frees(pattern)) {
    const auto wrong = [&](std::string_view why) {
      problems_.add(fmt::format("{}: {}", use_of(pattern, nullptr, device), why));
    };
    if (plan_.memory_cap() < 0) wrong("a plan without a memory cap frees nothing");
    if (!seen.insert(device).second) wrong("freed twice");
    const bool holds = device.value >= 0 && static_cast<size_t>(device.value) < old_living_.size() &&
                       old_living_[static_cast<size_t>(device.value)];
    if (!holds) wrong("not a living device of the old collection");
  }
}

// Empty when the leg is as it should be.
std::string PlanFacts::problem_of(const Leg& leg) const {
  const auto dst = static_cast<size_t>(leg.dst.value);
  if (leg.dst.value < 0 || dst >= new_device_.size() || !new_device_[dst])
    return "the destination is not a device of the new collection";
  if (!source_exists(leg.src)) return "there is no such source";
  const bool at_once = leg.transfer_class == TransferClass::kKept || leg.transfer_class == TransferClass::kSameDevice ||
                       leg.src.kind != Location::Kind::kDevice;
  if (leg.hop < 0 || (leg.hop > 0 && at_once)) return fmt::format("hop {} makes no sense here", leg.hop);
  return class_is_true(leg) ? "" : "the class is not true";
}

bool PlanFacts::source_exists(const Location& src) const {
  switch (src.kind) {
    case Location::Kind::kDevice: return src.index >= 0 && static_cast<size_t>(src.index) < new_device_.size();
    case Location::Kind::kHostMemory:
      return src.index >= 0 && src.index < static_cast<int>(input_.cluster.hosts.size());
    case Location::Kind::kStorage: return true;
  }
  return false;
}

bool PlanFacts::class_is_true(const Leg& leg) const {
  const bool storage = leg.src.kind == Location::Kind::kStorage;
  const bool own = leg.src == Location::device(leg.dst);
  switch (leg.transfer_class) {
    case TransferClass::kKept:
    case TransferClass::kDerived:
    case TransferClass::kSameDevice: return own;
    case TransferClass::kFromStorage: return storage;
    case TransferClass::kSameHost: return !storage && !own && on_host_of(leg.src, leg.dst);
    case TransferClass::kCrossHost: return !storage && !on_host_of(leg.src, leg.dst);
  }
  return false;
}

bool PlanFacts::on_host_of(const Location& src, DeviceId dst) const {
  const HostId host =
      src.kind == Location::Kind::kDevice ? input_.cluster.host_of(DeviceId(src.index)) : HostId(src.index);
  return host == input_.cluster.host_of(dst);
}

bool PlanFacts::inside_its_tensor(TensorId tensor, const Box& box) const {
  return known(tensor) && inside(box, plan_.tensor(tensor).shape);
}

// --- Bytes -----------------------------------------------------------------------------------------------------------

int64_t PlanFacts::old_bytes(TensorId tensor) const {
  return tensor::size_of(input_.from.tensors[static_cast<size_t>(tensor.value)].dtype);
}

int64_t PlanFacts::new_bytes(TensorId tensor) const {
  return tensor::size_of(input_.to.tensors[static_cast<size_t>(tensor.value)].dtype);
}

// New state takes the new type; what travels the narrower one; storage has the old one.
int64_t PlanFacts::element_bytes(TensorId tensor, TransferClass transfer_class) const {
  const bool travels = transfer_class == TransferClass::kSameHost || transfer_class == TransferClass::kCrossHost;
  if (transfer_class == TransferClass::kFromStorage) return old_bytes(tensor);
  return travels ? std::min(old_bytes(tensor), new_bytes(tensor)) : new_bytes(tensor);
}

void PlanFacts::check_sums() {
  std::vector<ByClass> legs(static_cast<size_t>(plan_.patterns().size()), ByClass{});
  for (int32_t i = 0; i < plan_.patterns().size(); ++i) {
    for (const Leg& leg : plan_.patterns().legs(i))
      ++legs[static_cast<size_t>(i)][static_cast<size_t>(leg.transfer_class)];
  }
  std::vector<ByClass> bytes(plan_.tensor_sets().size(), ByClass{});  // of one element of each tensor of a set
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const TensorId id : plan_.tensor_sets()[i]) {
      for (size_t c = 0; c < bytes[i].size(); ++c) bytes[i][c] += element_bytes(id, static_cast<TransferClass>(c));
    }
  }
  ClassBytes sums;
  for (const Instance& instance : plan_.instances()) {
    int64_t elements = 1;
    for (int dim = 0; dim < instance.box.rank; ++dim) elements *= instance.box.extent(dim);
    for (size_t c = 0; c < static_cast<size_t>(kTransferClasses); ++c) {
      sums.of(static_cast<TransferClass>(c)) +=
          elements * legs[static_cast<size_t>(instance.pattern)][c] * bytes[static_cast<size_t>(instance.tensors)][c];
    }
  }
  if (!(sums == plan_.bytes())) problems_.add("the plan's bytes by class are not the sums over its operations");
}

void PlanFacts::check_memory(DeviceId device, int64_t before, int64_t after, int64_t peak_extra) const {
  const auto entry = std::lower_bound(plan_.memory().begin(), plan_.memory().end(), device,
                                      [](const DeviceMemory& memory, DeviceId id) { return memory.device < id; });
  const DeviceMemory is{device, before, after, peak_extra};
  if (*entry == is) return;
  problems_.add(fmt::format("the memory of g{}: {} bytes before, {} after, at most {} more; the plan says {}, {}, {}",
                            device.value, before, after, peak_extra, entry->before, entry->after, entry->peak_extra));
}

int64_t MemoryLedger::peak_extra(int64_t before, int64_t after) const {
  int64_t held = before;
  int64_t most = std::max(before, after);
  for (const auto& [number, round] : rounds_) {
    held += round.brought;
    most = std::max(most, held);
    held -= round.freed;
  }
  return most - std::max(before, after);
}

// --- Names -----------------------------------------------------------------------------------------------------------

std::string PlanFacts::name_of_leg(size_t instance, TensorId tensor, const Leg& leg) const {
  return fmt::format("instance {} ({}, tensor {}, {} -> g{})", instance, name_of(leg.transfer_class),
                     name_of_box(tensor, plan_.instances()[instance].box), leg.src.str(), leg.dst.value);
}

std::string PlanFacts::name_of_free(size_t instance, TensorId tensor, DeviceId device) const {
  return fmt::format("instance {} (free, tensor {}, g{})", instance,
                     name_of_box(tensor, plan_.instances()[instance].box), device.value);
}

std::string PlanFacts::name_of_box(TensorId tensor, const Box& box) const {
  return known(tensor) ? fmt::format("\"{}\" {}", plan_.tensor(tensor).name, box.str())
                       : fmt::format("number {} {}", tensor.value, box.str());
}

// A leg, or the free of a device, at its first use.
std::string PlanFacts::use_of(int32_t pattern, const Leg* leg, DeviceId device) const {
  for (size_t i = 0; i < plan_.instances().size(); ++i) {
    if (plan_.instances()[i].pattern != pattern) continue;
    const TensorId tensor = plan_.tensors_of(plan_.instances()[i]).front();
    return leg != nullptr ? name_of_leg(i, tensor, *leg) : name_of_free(i, tensor, device);
  }
  return fmt::format("pattern {} (without instance, g{})", pattern, device.value);
}

bool staged_in(const Plan& plan, std::span<const HostId> holders, HostId host) {
  if (plan.memory_cap() >= 0) return false;
  return plan.planner() == "central" ? !holders.empty() : std::binary_search(holders.begin(), holders.end(), host);
}

std::vector<std::vector<int32_t>> instances_by_tensor(const Plan& plan) {
  std::vector<std::vector<int32_t>> instances(plan.tensors().size());
  for (size_t i = 0; i < plan.instances().size(); ++i) {
    for (const TensorId id : plan.tensors_of(plan.instances()[i]))
      instances[static_cast<size_t>(id.value)].push_back(static_cast<int32_t>(i));
  }
  return instances;
}

}  // namespace scalai::plan::internal
