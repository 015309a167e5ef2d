#include "ptc/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/plan/bounds.h"
#include "ptc/plan/internal/check_input.h"
#include "ptc/plan/internal/difference.h"
#include "ptc/plan/internal/drafts.h"
#include "ptc/plan/internal/fan_out.h"
#include "ptc/plan/internal/memory_cap.h"
#include "ptc/plan/internal/rounds.h"
#include "ptc/plan/internal/sharing.h"
#include "ptc/plan/internal/storage_reads.h"
#include "ptc/plan/plan_draft.h"

namespace scalai::plan {
namespace {

using internal::DevicesByHost;
using internal::Difference;
using internal::GroupDifference;
using internal::Overlap;
using tensor::Box;

// Up to this number of (box, tensor) pairs each tensor goes its own way; with more, so many tensors alike go one way
// that about kWaysTogether ways are left: a plan for 16,384 GPUs would have 20 million.
constexpr size_t kMostSingleWays = size_t{1} << 21;
constexpr size_t kWaysTogether = size_t{1} << 19;

class Planner {
 public:
  explicit Planner(const PlannerInput& input)
      : input_(input),
        difference_(internal::difference_of(input)),
        capped_(input.options.memory_cap >= 0),
        fan_out_(input.cluster, input.options),
        reading_(input, plan_, fan_out_, drafts_),
        holds_(static_cast<size_t>(input.cluster.device_count()), false) {}

  absl::StatusOr<Plan> run() {
    describe();
    for (const GroupDifference& group : difference_.groups) {
      set_ = drafts_.tensors(group.tensors);
      for (const Overlap& overlap : group.overlaps) add_overlap(group, overlap);
    }
    distribute();
    reads_ = reading_.emit();
    for (const Derived& derived : derived_) emit_derived(derived);
    std::move(drafts_).finish(plan_);
    SCALAI_RETURN_IF_ERROR(make_rounds());
    prove();
    return seal(std::move(plan_));
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
    int32_t flow = -1;            // flows_; −1: nobody is left to receive
  };
  // All that goes from the same holders to the same devices.
  struct Flow {
    const DevicesByHost* holders = nullptr;  // in holders_
    DevicesByHost wanting;
    int64_t bytes = 0;
    bool one_holder = false;
    std::vector<internal::Exchange> exchanges;
  };
  struct Draft {
    Box box;
    int32_t set = 0, pattern = 0;
  };

  struct Derived {
    Box box;
    int32_t set = 0;
    std::vector<DeviceId> devices;                         // that cast it
    std::vector<std::pair<DeviceId, DeviceId>> passed_on;  // from these to neighbours on the same host
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

  // Notes who can derive the box, and who gets it from one of these on its own host instead of from a holder; the
  // others are left.
  std::vector<DeviceId> derive(const Overlap& overlap, const std::vector<DeviceId>& devices) {
    const std::vector<DeviceId>& masters = difference_.new_sets[overlap.masters];
    const std::set<DeviceId> able(masters.begin(), masters.end());
    Derived derived{.box = overlap.box, .set = set_};
    std::map<HostId, std::vector<DeviceId>> by_host;
    for (const DeviceId device : devices) {
      if (!able.contains(device)) continue;
      derived.devices.push_back(device);
      by_host[input_.cluster.host_of(device)].push_back(device);
    }
    std::vector<DeviceId> rest;
    for (const DeviceId device : devices) {
      if (able.contains(device)) continue;
      const auto neighbours = by_host.find(input_.cluster.host_of(device));
      if (neighbours == by_host.end() || (overlap.holders < 0 && overlap.copies < 0)) {
        rest.push_back(device);
        continue;
      }
      const std::vector<DeviceId>& senders = neighbours->second;
      derived.passed_on.emplace_back(senders[derived.passed_on.size() % senders.size()], device);
    }
    if (!derived.devices.empty()) derived_.push_back(std::move(derived));
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
    if (input_.residency.storage) {
      reading_.add(wanted.overlap->box, wanted.group->tensors, wanted.set, wanted.devices);
      return;
    }
    for (const TensorId id : wanted.group->tensors) plan_.missing.push_back({id, wanted.overlap->box});
  }

  // Box by box from the least loaded. Where that leaves a link hotter than it must be, all again in shares.
  void distribute() {
    const internal::FanOut::Loads before = fan_out_.loads();
    together_ = tensors_together();
    std::vector<Draft> found;
    for (Wanted& wanted : wanted_) {
      if (!wanted.devices.empty()) wanted.flow = flow_of(wanted);
      distribute_alone(wanted, found);
    }
    const PlannerOptions& options = input_.options;
    if (options.in_place && options.relay && options.sources == SourceRule::kNearest) share(before, found);
    for (const Draft& draft : found) drafts_.add(draft.box, draft.set, draft.pattern);
  }

  // Tensors alike that take one way. Where boxes are many, they share out the sending well enough among themselves.
  size_t tensors_together() const {
    size_t ways = 0;
    for (const Wanted& wanted : wanted_) {
      if (!wanted.devices.empty()) ways += wanted.group->tensors.size();
    }
    return ways <= kMostSingleWays ? 1 : (ways + kWaysTogether - 1) / kWaysTogether;
  }

  void distribute_alone(const Wanted& wanted, std::vector<Draft>& found) {
    const Box& box = wanted.overlap->box;
    if (wanted.flow < 0) {
      found.push_back({box, wanted.set, drafts_.pattern(wanted.copies, wanted.frees)});
      return;
    }
    const Flow& flow = flows_[static_cast<size_t>(wanted.flow)];
    if (flow.one_holder) {
      const auto tensors = static_cast<int64_t>(wanted.group->tensors.size());
      auto legs = fan_out_.distribute(*flow.holders, flow.wanting, bytes_of(wanted) * tensors);
      found.push_back({box, wanted.set, pattern_of(wanted, std::move(legs))});
      return;
    }
    // Each tensor may take another way, so that replicas share the sending.
    std::map<int32_t, std::vector<TensorId>> by_pattern;
    const std::span<const TensorId> all = wanted.group->tensors;
    for (size_t at = 0; at < all.size(); at += together_) {
      const std::span<const TensorId> some = all.subspan(at, std::min(together_, all.size() - at));
      auto legs = fan_out_.distribute(*flow.holders, flow.wanting, bytes_of(wanted) * std::ssize(some));
      std::vector<TensorId>& same_way = by_pattern[pattern_of(wanted, std::move(legs))];
      same_way.insert(same_way.end(), some.begin(), some.end());
    }
    for (const auto& [pattern, tensors] : by_pattern) found.push_back({box, drafts_.tensors(tensors), pattern});
  }

  void share(const internal::FanOut::Loads& before, std::vector<Draft>& found) {
    const bool hosts = fan_out_.loads().crosses();
    const int64_t hottest = fan_out_.loads().hottest(hosts), received = fan_out_.loads().most_received(hosts);
    if (cool_enough(hottest, received)) return;
    internal::Sharing sharing(before.by_place(hosts), received);
    for (Flow& flow : flows_) {
      flow.exchanges = fan_out_.exchanges(*flow.holders, flow.wanting, hosts);
      sharing.add(flow.exchanges, flow.bytes);
    }
    const int64_t least = sharing.solve(internal::kShareTolerance, /*fine=*/capped_);  // each round by itself
    if (cool_enough(hottest, least)) return;
    fan_out_.reset(before);
    found.clear();
    for (const Wanted& wanted : wanted_) {
      const bool choice = wanted.flow >= 0 && has_choice(flows_[static_cast<size_t>(wanted.flow)]);
      choice ? distribute_shared(wanted, sharing, hosts, least, found) : distribute_alone(wanted, found);
    }
  }

  static bool cool_enough(int64_t hottest, int64_t least) { return hottest - least <= least / internal::kShareAbove; }

  static bool has_choice(const Flow& flow) {
    return std::any_of(flow.exchanges.begin(), flow.exchanges.end(),
                       [](const internal::Exchange& exchange) { return !exchange.forced(); });
  }

  void distribute_shared(const Wanted& wanted, internal::Sharing& sharing, bool hosts, int64_t hottest,
                         std::vector<Draft>& found) {
    const Flow& flow = flows_[static_cast<size_t>(wanted.flow)];
    const Box& box = wanted.overlap->box;
    const internal::Rows rows = internal::rows_of(box, bytes_of(wanted), hottest);
    std::map<int32_t, std::vector<TensorId>> whole;
    for (const TensorId id : wanted.group->tensors) {
      for (int64_t at = 0; at < rows.count;) {
        const auto [way, bytes] =
            sharing.next(static_cast<size_t>(wanted.flow), (rows.count - at) * rows.bytes, rows.bytes);
        const int32_t pattern = pattern_of(wanted, fan_out_.along(*flow.holders, flow.wanting, hosts, *way, bytes));
        const int64_t end = at + bytes / rows.bytes;
        if (end - at == rows.count) {
          whole[pattern].push_back(id);
        } else {
          found.push_back({internal::part_of(box, rows, at, end), drafts_.tensors({id}), pattern});
        }
        at = end;
      }
    }
    for (const auto& [pattern, tensors] : whole) found.push_back({box, drafts_.tensors(tensors), pattern});
  }

  int32_t pattern_of(const Wanted& wanted, std::vector<Leg> legs) {
    legs.insert(legs.begin(), wanted.copies.begin(), wanted.copies.end());
    return drafts_.pattern(legs, wanted.frees);
  }

  int64_t bytes_of(const Wanted& wanted) const {
    return wanted.overlap->box.volume() *
           plan_.tensor(wanted.group->tensors.front()).element_bytes(TransferClass::kCrossHost);
  }

  int32_t flow_of(const Wanted& wanted) {
    const Overlap& overlap = *wanted.overlap;
    const std::array<int32_t, 4> key = {overlap.holders, overlap.copies, overlap.wanting, overlap.masters};
    const auto [entry, fresh] = flow_of_.try_emplace(key, static_cast<int32_t>(flows_.size()));
    if (fresh) flows_.push_back(make_flow(wanted));
    flows_[static_cast<size_t>(entry->second)].bytes +=
        bytes_of(wanted) * static_cast<int64_t>(wanted.group->tensors.size());
    return entry->second;
  }

  Flow make_flow(const Wanted& wanted) {
    const Overlap& overlap = *wanted.overlap;
    const auto [holders, fresh] = holders_.try_emplace({overlap.holders, overlap.copies});
    const bool held = overlap.holders >= 0;
    if (fresh) {
      std::vector<HostId> hosts;
      // Strategies that stage or follow the first replica use copies only where no device is left.
      const bool copies_too = input_.options.in_place && input_.options.sources == SourceRule::kNearest;
      if (overlap.copies >= 0 && (!held || copies_too))
        hosts = difference_.copy_hosts[static_cast<size_t>(overlap.copies)];
      holders->second = internal::by_host(
          held ? to_read(difference_.old_sets[overlap.holders], !hosts.empty()) : std::vector<DeviceId>(),
          input_.cluster, hosts);
    }
    return {
        .holders = &holders->second,
        .wanting = internal::by_host(wanted.devices, input_.cluster),
        .bytes = 0,
        .one_holder = held && overlap.copies < 0 && to_read(difference_.old_sets[overlap.holders], false).size() == 1,
        .exchanges = {}};
  }

  // Those that stay, if the box is anywhere else than on devices that leave.
  std::vector<DeviceId> to_read(std::vector<DeviceId> holders, bool has_copies) const {
    if (leaving().empty()) return holders;
    const auto leaves = [&](DeviceId device) { return leaving().contains(device); };
    if (has_copies || !std::all_of(holders.begin(), holders.end(), leaves)) std::erase_if(holders, leaves);
    return holders;
  }

  const std::set<DeviceId>& leaving() const {
    static const std::set<DeviceId> kNone;
    return input_.options.in_place && !capped_ ? input_.leaving : kNone;
  }

  void emit_derived(const Derived& derived) {
    if (derive_hop_ < 0) derive_hop_ = drafts_.last_hop() + 1;
    std::vector<Leg> legs = local_legs(derived.devices, TransferClass::kDerived);
    for (const auto& [from, to] : derived.passed_on)
      legs.push_back({.transfer_class = TransferClass::kSameHost, .hop = 1, .src = Location::device(from), .dst = to});
    for (Leg& leg : legs) leg.hop += derive_hop_;
    drafts_.add(derived.box, derived.set, drafts_.pattern(legs));
  }

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
      if (!leaving().empty()) internal::leave_first(plan_, leaving());
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
    const Bounds bounds = lower_bounds(input_, difference_, reads_);
    plan_.lower_bound = bounds.given_placement;
    plan_.lower_bound_any_placement_cross_host = bounds.any_placement_cross_host;
    plan_.survives_host_losses = survives_host_losses(difference_, input_.cluster);
  }

  const PlannerInput& input_;
  const Difference difference_;
  const bool capped_;
  internal::FanOut fan_out_;
  PlanDraft plan_;
  internal::Drafts drafts_;
  internal::StorageReading reading_;  // of boxes that only storage has
  StorageReads reads_ = StorageReads::kOnce;
  int32_t set_ = 0;  // tensors of the group at hand
  absl::flat_hash_map<std::pair<int32_t, int32_t>, Split> splits_;
  std::vector<bool> holds_;  // by device: scratch of split_of
  std::vector<Wanted> wanted_;
  std::map<std::pair<int32_t, int32_t>, DevicesByHost> holders_;  // by set and copies: many flows share them
  std::vector<Flow> flows_;
  absl::flat_hash_map<std::array<int32_t, 4>, int32_t> flow_of_;
  std::vector<Derived> derived_;
  int32_t derive_hop_ = -1;
  size_t together_ = 1;  // tensors alike that take one way
};

}  // namespace

absl::StatusOr<Plan> make_plan(const PlannerInput& input) {
  SCALAI_RETURN_IF_ERROR(internal::check_input(input));
  SCALAI_ASSIGN_OR_RETURN(Plan plan, Planner(input).run());
  if (plan.feasible() || !input.options.derive_params) return plan;
  // A parameter cannot be cast from a master that is lost: name what is missing of both.
  PlannerInput moved = input;
  moved.options.derive_params = false;
  return Planner(moved).run();
}

}  // namespace scalai::plan
