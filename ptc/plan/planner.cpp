#include "ptc/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/plan/bounds.h"

namespace scalai::plan {
namespace {

using tensor::Box;

struct Holder {
  Location location;
  HostId host;
};

// Bytes given to each sender so far; what keeps the load even.
struct Load {
  std::map<Location, int64_t> by_location;
  std::map<HostId, int64_t> cross_by_host;
};

class Planner {
 public:
  explicit Planner(const PlannerInput& input) : input_(input) {}

  Plan run() {
    for (size_t i = 0; i < input_.to.tensors.size(); ++i) plan_tensor(TensorId(static_cast<int64_t>(i)));
    assign_rounds();
    finish();
    return std::move(plan_);
  }

 private:
  // Old holders of a tensor by box. Within a valid collection two different boxes never overlap.
  using Holders = std::map<Box, std::vector<Holder>>;

  Holders old_holders(TensorId id) const {
    Holders holders;
    if (input_.options.sources == SourceRule::kStorage) return holders;
    for (int rank = 0; rank < input_.from.ranks(); ++rank) {
      const DeviceId device = input_.from.device_of_rank[static_cast<size_t>(rank)];
      if (input_.residency.lost.count(device) != 0) continue;
      const HostId host = input_.cluster.host_of(device);
      for (const tensor::Piece& piece : input_.from.pieces(id, LogicalRank(rank)).pieces) {
        holders[piece.box].push_back(staged({Location::device(device), host}));
      }
    }
    return holders;
  }

  // Where others read a holder's state from: the device itself, or the host memory it is staged in.
  Holder staged(const Holder& holder) const {
    if (input_.options.in_place) return holder;
    const HostId host = input_.options.hub.valid() ? input_.options.hub : holder.host;
    return {Location::host_memory(host), host};
  }

  void plan_tensor(TensorId id) {
    tensor_ = id;
    element_bytes_ = tensor::size_of(input_.to.tensors[static_cast<size_t>(id.value)].dtype);
    const Holders holders = old_holders(id);
    std::map<Box, Missing> missing;
    for (int rank = 0; rank < input_.to.ranks(); ++rank) {
      const DeviceId device = input_.to.device_of_rank[static_cast<size_t>(rank)];
      for (const tensor::Piece& piece : input_.to.pieces(id, LogicalRank(rank)).pieces) {
        for (const Box& box : plan_piece(holders, device, piece.box)) missing.emplace(box, Missing{id, box});
      }
    }
    for (const auto& [box, entry] : missing) plan_.missing.push_back(entry);
    emit_merged();
  }

  // Plans one new piece on its device; returns what nobody holds.
  std::vector<Box> plan_piece(const Holders& holders, DeviceId device, const Box& box) {
    std::vector<Box> wanted = {box};
    if (input_.options.in_place) wanted = take_own(holders, device, box);
    wanted = take_from_holders(holders, device, wanted);
    if (input_.options.sources != SourceRule::kStorage) wanted = take_from_copies(device, std::move(wanted));
    if (!input_.residency.storage) return wanted;
    for (const Box& part : wanted) add(TransferClass::kFromStorage, part, Location::storage(), device);
    return {};
  }

  std::vector<Box> take_own(const Holders& holders, DeviceId device, const Box& box) {
    const Location here = Location::device(device);
    const auto holds_here = [&](const std::vector<Holder>& list) {
      return std::any_of(list.begin(), list.end(), [&](const Holder& holder) { return holder.location == here; });
    };
    if (const auto same = holders.find(box); same != holders.end() && holds_here(same->second)) {
      add(TransferClass::kKept, box, here, device);
      return {};
    }
    std::vector<Box> own;
    for (const auto& [held, list] : holders) {
      const auto common = intersect(held, box);
      if (!common || !holds_here(list)) continue;
      add(TransferClass::kSameDevice, *common, here, device);
      own.push_back(*common);
    }
    return subtract(box, own);
  }

  std::vector<Box> take_from_holders(const Holders& holders, DeviceId device, const std::vector<Box>& wanted) {
    std::vector<Box> rest;
    for (const Box& box : wanted) {
      std::vector<Box> taken;
      for (const auto& [held, list] : holders) {
        const auto common = intersect(held, box);
        if (!common) continue;
        take(*common, choose(list, device, common->volume() * element_bytes_), device);
        taken.push_back(*common);
      }
      const std::vector<Box> left = subtract(box, taken);
      rest.insert(rest.end(), left.begin(), left.end());
    }
    return rest;
  }

  // Redundant copies in host memory may overlap in any way: take from the first that has a part.
  std::vector<Box> take_from_copies(DeviceId device, std::vector<Box> wanted) {
    for (const collection::ExtraHolder& extra : input_.residency.extra) {
      if (extra.tensor != tensor_ || wanted.empty()) continue;
      std::vector<Box> rest;
      for (const Box& box : wanted) {
        if (const auto common = intersect(extra.box, box)) {
          take(*common, {Location::host_memory(extra.host), extra.host}, device);
        }
        const std::vector<Box> left = subtract(box, extra.box);
        rest.insert(rest.end(), left.begin(), left.end());
      }
      wanted = std::move(rest);
    }
    return wanted;
  }

  // Same host before elsewhere; then the least loaded host and sender; then the first in rank order.
  const Holder& choose(const std::vector<Holder>& list, DeviceId device, int64_t bytes) {
    const Holder* best = &list.front();
    if (input_.options.sources == SourceRule::kNearest) {
      const HostId host = input_.cluster.host_of(device);
      const auto cost = [&](const Holder& holder) {
        const bool cross = holder.host != host;
        return std::tuple(cross, cross ? load_.cross_by_host[holder.host] : 0, load_.by_location[holder.location]);
      };
      best = &*std::min_element(list.begin(), list.end(),
                                [&](const Holder& a, const Holder& b) { return cost(a) < cost(b); });
      load_.by_location[best->location] += bytes;
      if (best->host != host) load_.cross_by_host[best->host] += bytes;
    }
    return *best;
  }

  void take(const Box& box, const Holder& holder, DeviceId device) {
    const bool same_host = holder.host == input_.cluster.host_of(device);
    add(same_host ? TransferClass::kSameHost : TransferClass::kCrossHost, box, holder.location, device);
  }

  void add(TransferClass transfer_class, const Box& box, Location src, DeviceId dst) {
    pending_[{dst, src, transfer_class}].push_back(box);
  }

  void emit_merged() {
    for (auto& [key, boxes] : pending_) {
      const auto& [dst, src, transfer_class] = key;
      for (const Box& box : merge(std::move(boxes))) {
        plan_.operations.push_back({.transfer_class = transfer_class,
                                    .round = 0,
                                    .tensor = tensor_,
                                    .box = box,
                                    .src = src,
                                    .dst = dst,
                                    .bytes = box.volume() * element_bytes_});
      }
    }
    pending_.clear();
  }

  // Operations arrive by tensor; each device's fill its rounds in that order.
  void assign_rounds() {
    std::map<DeviceId, std::pair<int32_t, int64_t>> open;  // round being filled, bytes in it
    const int64_t cap = input_.options.round_bytes;
    for (Operation& operation : plan_.operations) {
      if (cap <= 0 || operation.transfer_class == TransferClass::kKept) continue;
      auto& [round, filled] = open[operation.dst];
      if (filled > 0 && filled + operation.bytes > cap) {
        ++round;
        filled = 0;
      }
      filled += operation.bytes;
      operation.round = round;
      plan_.rounds = std::max(plan_.rounds, round + 1);
    }
  }

  void finish() {
    std::sort(plan_.operations.begin(), plan_.operations.end(), [](const Operation& a, const Operation& b) {
      return std::tie(a.round, a.tensor, a.box, a.dst, a.src) < std::tie(b.round, b.tensor, b.box, b.dst, b.src);
    });
    for (const Operation& operation : plan_.operations) plan_.bytes.of(operation.transfer_class) += operation.bytes;
    plan_.planner = input_.options.name;
    plan_.from = input_.from.name;
    plan_.to = input_.to.name;
    plan_.from_epoch = input_.from.epoch;
    plan_.to_epoch = input_.to.epoch;
    for (const collection::LogicalTensor& tensor : input_.to.tensors) {
      plan_.tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
    }
    plan_.src_devices = input_.from.device_of_rank;
    plan_.dst_devices = input_.to.device_of_rank;
    const Bounds bounds = lower_bounds(input_);
    plan_.lower_bound = bounds.given_placement;
    plan_.lower_bound_any_placement_cross_host = bounds.any_placement_cross_host;
    plan_.survives_host_losses = survives_host_losses(input_.to, input_.cluster);
    plan_.digest = digest_of(plan_);
  }

  const PlannerInput& input_;
  Plan plan_;
  Load load_;
  TensorId tensor_;
  int64_t element_bytes_ = 1;
  std::map<std::tuple<DeviceId, Location, TransferClass>, std::vector<Box>> pending_;
};

absl::Status check_input(const PlannerInput& input) {
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
    if (from[i].shape != to[i].shape || from[i].dtype != to[i].dtype) {
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
  return Planner(input).run();
}

}  // namespace scalai::plan
