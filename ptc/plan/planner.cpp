#include "ptc/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/plan/bounds.h"
#include "ptc/plan/internal/difference.h"
#include "ptc/plan/internal/drafts.h"
#include "ptc/plan/internal/fan_out.h"
#include "ptc/plan/internal/rounds.h"

namespace scalai::plan {
namespace {

using internal::DevicesByHost;
using internal::Difference;
using internal::GroupDifference;
using internal::Overlap;
using tensor::Box;

class Planner {
 public:
  explicit Planner(const PlannerInput& input)
      : input_(input),
        difference_(internal::difference_of(input)),
        capped_(input.options.memory_cap >= 0),
        fan_out_(input.cluster, input.options),
        holders_(static_cast<size_t>(difference_.old_sets.size())),
        holds_(static_cast<size_t>(input.cluster.device_count()), false) {}

  absl::StatusOr<Plan> run() {
    describe();
    for (const GroupDifference& group : difference_.groups) {
      set_ = drafts_.tensors(group.tensors);
      for (const Overlap& overlap : group.overlaps) add_overlap(group, overlap);
    }
    distribute();
    for (const auto& [devices, box, set] : derived_) emit_derived(devices, box, set);
    std::move(drafts_).finish(plan_);
    SCALAI_RETURN_IF_ERROR(make_rounds());
    prove();
    return std::move(plan_);
  }

 private:
  // The devices of a box that hold it already, and those that do not, in rank order.
  struct Split {
    std::vector<DeviceId> local, others;
  };
  // A box that has to come from somewhere: who wants it, and what goes with it.
  struct Wanted {
    const GroupDifference* group = nullptr;
    int32_t set = 0;
    const Overlap* overlap = nullptr;
    std::vector<DeviceId> devices;
    std::vector<Leg> copies;      // with a memory cap: copied on the device from the same box, in the same round
    std::vector<DeviceId> frees;  // with a memory cap
  };

  const Split& split_of(int32_t holders, int32_t wanting) {
    const auto [entry, fresh] = splits_.try_emplace({holders, wanting});
    Split& split = entry->second;
    if (!fresh) return split;
    if (holders < 0) {
      split.others = difference_.new_sets[wanting];
      return split;
    }
    for (const DeviceId device : difference_.old_sets[holders]) holds_[static_cast<size_t>(device.value)] = true;
    for (const DeviceId device : difference_.new_sets[wanting])
      (holds_[static_cast<size_t>(device.value)] ? split.local : split.others).push_back(device);
    for (const DeviceId device : difference_.old_sets[holders]) holds_[static_cast<size_t>(device.value)] = false;
    return split;
  }

  static std::vector<Leg> local_legs(const std::vector<DeviceId>& devices, TransferClass transfer_class) {
    std::vector<Leg> legs;
    for (const DeviceId device : devices)
      legs.push_back({.transfer_class = transfer_class, .hop = 0, .src = Location::device(device), .dst = device});
    return legs;
  }

  void add_overlap(const GroupDifference& group, const Overlap& overlap) {
    Wanted wanted{.group = &group, .set = set_, .overlap = &overlap, .devices = {}, .copies = {}, .frees = {}};
    if (!input_.options.in_place) {
      if (overlap.side == Overlap::Side::kLocal) return;
      wanted.devices = difference_.new_sets[overlap.wanting];
      return fetch(std::move(wanted));
    }
    if (one_to_one(overlap)) return pass_directly(group, overlap);
    const Split& split = split_of(overlap.holders, overlap.wanting);
    const TensorInfo& tensor = plan_.tensor(group.tensors.front());
    const bool keep = overlap.whole && tensor.dtype == tensor.from_dtype;
    if (overlap.side != Overlap::Side::kRemote && !split.local.empty() && (keep || !capped_)) {
      const auto local = local_legs(split.local, keep ? TransferClass::kKept : TransferClass::kSameDevice);
      drafts_.add(overlap.box, set_, drafts_.pattern(local));
    }
    if (overlap.side == Overlap::Side::kLocal) return;
    wanted.devices = overlap.masters >= 0 ? derive(overlap, split.others) : split.others;
    if (capped_ && overlap.holders >= 0) {
      if (!keep) wanted.copies = local_legs(split.local, TransferClass::kSameDevice);
      wanted.frees = frees_of(overlap, keep ? split.local : std::vector<DeviceId>());
    }
    fetch(std::move(wanted));
  }

  // One device holds it and one wants it, as most shards of a big job: there is nothing to choose.
  bool one_to_one(const Overlap& overlap) const {
    return !capped_ && overlap.side == Overlap::Side::kBoth && overlap.holders >= 0 && overlap.copies < 0 &&
           overlap.masters < 0 && input_.options.sources == SourceRule::kNearest &&
           difference_.old_sets[overlap.holders].size() == 1 && difference_.new_sets[overlap.wanting].size() == 1;
  }

  void pass_directly(const GroupDifference& group, const Overlap& overlap) {
    const TensorInfo& tensor = plan_.tensor(group.tensors.front());
    const DeviceId from = difference_.old_sets[overlap.holders].front();
    const DeviceId to = difference_.new_sets[overlap.wanting].front();
    Leg leg{.transfer_class = TransferClass::kSameDevice, .hop = 0, .src = Location::device(from), .dst = to};
    if (from != to) {
      leg = fan_out_.direct(from, to,
                            overlap.box.volume() * static_cast<int64_t>(group.tensors.size()) *
                                tensor.element_bytes(TransferClass::kCrossHost));
    } else if (overlap.whole && tensor.dtype == tensor.from_dtype) {
      leg.transfer_class = TransferClass::kKept;
    }
    drafts_.add(overlap.box, set_, drafts_.pattern(leg));
  }

  std::vector<DeviceId> frees_of(const Overlap& overlap, const std::vector<DeviceId>& keepers) const {
    const std::set<DeviceId> kept(keepers.begin(), keepers.end());
    std::vector<DeviceId> frees;
    for (const DeviceId device : difference_.old_sets[overlap.holders]) {
      if (!kept.contains(device)) frees.push_back(device);
    }
    return frees;
  }

  // Notes who can derive the box; the others are left.
  std::vector<DeviceId> derive(const Overlap& overlap, const std::vector<DeviceId>& devices) {
    const std::vector<DeviceId>& masters = difference_.new_sets[overlap.masters];
    const std::set<DeviceId> able(masters.begin(), masters.end());
    std::vector<DeviceId> derive, rest;
    for (const DeviceId device : devices) (able.contains(device) ? derive : rest).push_back(device);
    if (!derive.empty()) derived_.push_back({std::move(derive), overlap.box, set_});
    return rest;
  }

  void fetch(Wanted wanted) {
    const Overlap& overlap = *wanted.overlap;
    if (!wanted.devices.empty() && overlap.holders < 0 && overlap.copies < 0) return fetch_unheld(wanted);
    if (!wanted.devices.empty() || !wanted.copies.empty() || !wanted.frees.empty())
      wanted_.push_back(std::move(wanted));
  }

  // From storage; else it is missing.
  void fetch_unheld(const Wanted& wanted) {
    if (!input_.residency.storage) {
      for (const TensorId id : wanted.group->tensors) plan_.missing.push_back({id, wanted.overlap->box});
      return;
    }
    std::vector<Leg> legs;
    for (const DeviceId device : wanted.devices)
      legs.push_back(
          {.transfer_class = TransferClass::kFromStorage, .hop = 0, .src = Location::storage(), .dst = device});
    drafts_.add(wanted.overlap->box, wanted.set, drafts_.pattern(legs));
  }

  void distribute() {
    for (Wanted& wanted : wanted_) {
      if (wanted.devices.empty()) {
        drafts_.add(wanted.overlap->box, wanted.set, drafts_.pattern(wanted.copies, wanted.frees));
        continue;
      }
      const Overlap& overlap = *wanted.overlap;
      const TensorInfo& tensor = plan_.tensor(wanted.group->tensors.front());
      const int64_t bytes = overlap.box.volume() * tensor.element_bytes(TransferClass::kCrossHost);
      const bool one_holder = overlap.copies < 0 && difference_.old_sets[overlap.holders].size() == 1;
      if (one_holder) {
        emit(wanted, wanted.set, legs_of(wanted, bytes * static_cast<int64_t>(wanted.group->tensors.size())));
        continue;
      }
      // Each tensor may take another way, so that replicas share the sending.
      std::map<int32_t, std::vector<TensorId>> by_pattern;
      for (const TensorId id : wanted.group->tensors) {
        std::vector<Leg> legs = legs_of(wanted, bytes);
        legs.insert(legs.begin(), wanted.copies.begin(), wanted.copies.end());
        by_pattern[drafts_.pattern(legs, wanted.frees)].push_back(id);
      }
      for (const auto& [pattern, tensors] : by_pattern) drafts_.add(overlap.box, drafts_.tensors(tensors), pattern);
    }
  }

  void emit(const Wanted& wanted, int32_t set, std::vector<Leg> legs) {
    legs.insert(legs.begin(), wanted.copies.begin(), wanted.copies.end());
    drafts_.add(wanted.overlap->box, set, drafts_.pattern(legs, wanted.frees));
  }

  std::vector<Leg> legs_of(const Wanted& wanted, int64_t bytes) {
    const Overlap& overlap = *wanted.overlap;
    const DevicesByHost wanting = internal::by_host(wanted.devices, input_.cluster);
    if (overlap.copies < 0) return fan_out_.distribute(holders_of(overlap.holders), wanting, bytes);
    // Strategies that stage or follow the first replica use copies only where no device is left.
    const bool copies_too = input_.options.in_place && input_.options.sources == SourceRule::kNearest;
    const std::vector<HostId>& hosts = difference_.copy_hosts[static_cast<size_t>(overlap.copies)];
    if (overlap.holders < 0) return fan_out_.distribute(internal::by_host({}, input_.cluster, hosts), wanting, bytes);
    if (!copies_too) return fan_out_.distribute(holders_of(overlap.holders), wanting, bytes);
    return fan_out_.distribute(internal::by_host(difference_.old_sets[overlap.holders], input_.cluster, hosts), wanting,
                               bytes);
  }

  const DevicesByHost& holders_of(int32_t set) {
    DevicesByHost& holders = holders_[static_cast<size_t>(set)];
    if (holders.groups.empty()) holders = internal::by_host(difference_.old_sets[set], input_.cluster);
    return holders;
  }

  void emit_derived(const std::vector<DeviceId>& devices, const Box& box, int32_t set) {
    if (derive_hop_ < 0) derive_hop_ = drafts_.last_hop() + 1;
    std::vector<Leg> legs = local_legs(devices, TransferClass::kDerived);
    for (Leg& leg : legs) leg.hop = derive_hop_;
    drafts_.add(box, set, drafts_.pattern(legs));
  }

  // What is known before anything is planned.
  void describe() {
    plan_.planner = input_.options.name;
    plan_.from = input_.from.name;
    plan_.to = input_.to.name;
    plan_.from_epoch = input_.from.epoch;
    plan_.to_epoch = input_.to.epoch;
    if (capped_) plan_.memory_cap = input_.options.memory_cap;
    for (size_t i = 0; i < input_.to.tensors.size(); ++i) {
      const collection::LogicalTensor& tensor = input_.to.tensors[i];
      plan_.tensors.push_back(
          {tensor.name, tensor.dtype, input_.from.tensors[i].dtype, tensor.shape, difference_.derived_from[i]});
    }
    plan_.src_devices = input_.from.device_of_rank;
    plan_.dst_devices = input_.to.device_of_rank;
    std::map<DeviceId, DeviceMemory> memory;
    for (const DeviceId device : plan_.dst_devices) memory[device].device = device;
    for (const DeviceId device : plan_.src_devices) {
      if (!input_.residency.lost.contains(device)) memory[device].device = device;
    }
    for (int32_t set = 0; set < difference_.old_sets.size(); ++set) {
      for (const DeviceId device : difference_.old_sets[set])
        memory[device].before += difference_.old_bytes[static_cast<size_t>(set)];
    }
    for (int32_t set = 0; set < difference_.new_sets.size(); ++set) {
      for (const DeviceId device : difference_.new_sets[set])
        memory[device].after += difference_.new_bytes[static_cast<size_t>(set)];
    }
    for (const auto& [device, one] : memory) plan_.memory.push_back(one);
  }

  absl::Status make_rounds() {
    if (capped_ || input_.options.round_bytes > 0) internal::sort_instances(plan_);
    if (!capped_) {
      if (input_.options.round_bytes > 0) internal::cap_rounds(plan_, input_.options.round_bytes);
      internal::derive_last(plan_);
      internal::measure_memory(plan_);
    } else if (const int64_t least = internal::cap_memory(plan_, input_.cluster); least > plan_.memory_cap) {
      return invalid(
          fmt::format("no order of the plan keeps a memory cap of {} bytes; the smallest cap found to work is {} bytes",
                      plan_.memory_cap, least));
    }
    internal::sort_instances(plan_);
    return absl::OkStatus();
  }

  void prove() {
    internal::renumber(plan_);
    for (const Instance& instance : plan_.instances) {
      const auto count = static_cast<int64_t>(plan_.tensors_of(instance).size());
      const TensorInfo& tensor = plan_.tensor(plan_.tensors_of(instance).front());
      for (const Leg& leg : plan_.patterns.legs(instance.pattern)) {
        plan_.bytes.of(leg.transfer_class) += count * instance.box.volume() * tensor.element_bytes(leg.transfer_class);
      }
    }
    std::sort(plan_.missing.begin(), plan_.missing.end(),
              [](const Missing& a, const Missing& b) { return std::tie(a.tensor, a.box) < std::tie(b.tensor, b.box); });
    const Bounds bounds = lower_bounds(input_, difference_);
    plan_.lower_bound = bounds.given_placement;
    plan_.lower_bound_any_placement_cross_host = bounds.any_placement_cross_host;
    plan_.survives_host_losses = survives_host_losses(difference_, input_.cluster);
    plan_.digest = digest_of(plan_);
  }

  struct Derived {
    std::vector<DeviceId> devices;
    Box box;
    int32_t set = 0;
  };

  const PlannerInput& input_;
  const Difference difference_;
  const bool capped_;
  internal::FanOut fan_out_;
  Plan plan_;
  internal::Drafts drafts_;
  int32_t set_ = 0;                     // tensors of the group at hand
  std::vector<DevicesByHost> holders_;  // by set of the old side, when asked for
  absl::flat_hash_map<std::pair<int32_t, int32_t>, Split> splits_;
  std::vector<bool> holds_;  // by device: scratch of split_of
  std::vector<Wanted> wanted_;
  std::vector<Derived> derived_;
  int32_t derive_hop_ = -1;
};

// A change of type that the state survives: between floating types, whatever their size.
bool may_change(tensor::DType from, tensor::DType to) {
  return from == to || (internal::is_floating(from) && internal::is_floating(to));
}

absl::Status check_input(const PlannerInput& input) {
  const bool from_devices = input.options.in_place && input.options.sources != SourceRule::kStorage;
  if (input.options.memory_cap >= 0 && !from_devices)
    return invalid(fmt::format("a memory cap needs a plan that works in place, which {} does not", input.options.name));
  const auto& from = input.from.tensors;
  const auto& to = input.to.tensors;
  if (from.size() != to.size()) {
    return invalid(fmt::format("the old collection has {} tensors, the new one {}", from.size(), to.size()));
  }
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].name != to[i].name) {
      return invalid(fmt::format("tensor {} is \"{}\" in the old collection and \"{}\" in the new one", i, from[i].name,
                                 to[i].name));
    }
    if (from[i].shape != to[i].shape || !may_change(from[i].dtype, to[i].dtype)) {
      return invalid(fmt::format("tensor \"{}\" is {} {} in the old collection and {} {} in the new one", from[i].name,
                                 name_of(from[i].dtype), from[i].shape.str(), name_of(to[i].dtype), to[i].shape.str()));
    }
  }
  for (const collection::Collection* side : {&input.from, &input.to}) {
    for (const DeviceId device : side->device_of_rank) {
      if (device.value >= 0 && device.value < input.cluster.device_count()) continue;
      return invalid(
          fmt::format("device {} is not one of the cluster's {}", device.value, input.cluster.device_count()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Plan> make_plan(const PlannerInput& input) {
  SCALAI_RETURN_IF_ERROR(check_input(input));
  auto plan = Planner(input).run();
  if (!plan.ok() || plan->feasible() || !input.options.derive_params) return plan;
  // A parameter cannot be cast from a master that is lost: name what is missing of both.
  PlannerInput moved = input;
  moved.options.derive_params = false;
  return Planner(moved).run();
}

}  // namespace scalai::plan
