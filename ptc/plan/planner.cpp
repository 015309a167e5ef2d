#include "ptc/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/plan/bounds.h"
#include "ptc/plan/internal/fan_out.h"
#include "ptc/plan/internal/spread.h"

namespace scalai::plan {
namespace {

using internal::HeldBox;
using tensor::Box;

class Planner {
 public:
  explicit Planner(const PlannerInput& input)
      : input_(input),
        from_(input.from),
        to_(input.to),
        fan_out_(input.cluster, input.options),
        holds_(static_cast<size_t>(input.cluster.device_count()), false) {}

  Plan run() {
    for (const std::vector<TensorId>& group : internal::alike(input_.from, input_.to, input_.residency))
      plan_group(group);
    assign_rounds();
    finish();
    return std::move(plan_);
  }

 private:
  // A part of one new box that lies in one old box: who has it, who wants it.
  struct Wanted {
    Box box;
    internal::DevicesByHost holders, devices;
  };
  // What is found out once for a group of tensors alike.
  struct Found {
    std::vector<Operation> local;  // kept and copied, without their tensor
    std::vector<Wanted> wanted;
    std::vector<std::pair<Box, std::vector<DeviceId>>> unheld;  // parts of new boxes that no device holds
  };

  void plan_group(const std::vector<TensorId>& group) {
    const bool storage_only = input_.options.sources == SourceRule::kStorage;
    const std::vector<HeldBox> old =
        storage_only ? std::vector<HeldBox>() : from_.spread_of(group.front(), input_.residency.lost);
    const std::vector<HeldBox> wanted = to_.spread_of(group.front(), {});
    element_bytes_ = tensor::size_of(input_.to.tensors[static_cast<size_t>(group.front().value)].dtype);
    const internal::BoxIndex index(old);
    Found found;
    for (const HeldBox& piece : wanted) find_piece(old, index, piece, found);
    for (const TensorId tensor : group) emit(tensor, found);
  }

  void find_piece(const std::vector<HeldBox>& old, const internal::BoxIndex& index, const HeldBox& piece,
                  Found& found) {
    std::vector<Box> covered;
    int64_t left = piece.box.volume();
    index.overlaps(piece.box, [&](size_t i, const Box& common) {
      split_devices(old[i], piece, common, found);
      covered.push_back(common);
      left -= common.volume();
    });
    if (left == 0) return;
    for (const Box& box : subtract(piece.box, covered)) found.unheld.emplace_back(box, piece.devices);
  }

  // Devices that want `common`: those that hold it keep or copy it, the others wait for a source.
  void split_devices(const HeldBox& old, const HeldBox& piece, const Box& common, Found& found) {
    if (!input_.options.in_place) {
      found.wanted.push_back(
          {common, internal::by_host(old.devices, input_.cluster), internal::by_host(piece.devices, input_.cluster)});
      return;
    }
    const TransferClass local = old.box == piece.box ? TransferClass::kKept : TransferClass::kSameDevice;
    for (const DeviceId device : old.devices) holds_[static_cast<size_t>(device.value)] = true;
    std::vector<DeviceId> others;
    for (const DeviceId device : piece.devices) {
      if (holds_[static_cast<size_t>(device.value)]) {
        found.local.push_back({.transfer_class = local, .box = common, .src = Location::device(device), .dst = device});
      } else {
        others.push_back(device);
      }
    }
    for (const DeviceId device : old.devices) holds_[static_cast<size_t>(device.value)] = false;
    if (others.empty()) return;
    found.wanted.push_back(
        {common, internal::by_host(old.devices, input_.cluster), internal::by_host(others, input_.cluster)});
  }

  void emit(TensorId tensor, const Found& found) {
    tensor_ = tensor;
    for (const Operation& operation : found.local) {
      if (operation.transfer_class == TransferClass::kKept) {
        plan_.operations.push_back(operation);
        plan_.operations.back().tensor = tensor;
        plan_.operations.back().bytes = operation.box.volume() * element_bytes_;
      } else {
        add(operation.transfer_class, operation.box, operation.src, operation.dst, 0);
      }
    }
    for (const Wanted& wanted : found.wanted) {
      const int64_t bytes = wanted.box.volume() * element_bytes_;
      for (const internal::Leg& leg : fan_out_.distribute(wanted.holders, wanted.devices, bytes)) {
        add(leg.transfer_class, wanted.box, leg.src, leg.dst, leg.hop);
      }
    }
    emit_unheld(found);
    emit_merged();
  }

  // From redundant copies in host memory, then storage; else it is missing.
  void emit_unheld(const Found& found) {
    std::set<Box> missing;
    for (const auto& [box, devices] : found.unheld) {
      for (const DeviceId device : devices) {
        std::vector<Box> left = {box};
        if (input_.options.sources != SourceRule::kStorage) left = take_from_copies(device, std::move(left));
        for (const Box& part : left) {
          if (input_.residency.storage) {
            add(TransferClass::kFromStorage, part, Location::storage(), device, 0);
          } else {
            missing.insert(part);
          }
        }
      }
    }
    for (const Box& box : missing) plan_.missing.push_back({tensor_, box});
  }

  // Redundant copies may overlap in any way: take from the first that has a part.
  std::vector<Box> take_from_copies(DeviceId device, std::vector<Box> wanted) {
    for (const collection::ExtraHolder& extra : input_.residency.extra) {
      if (extra.tensor != tensor_ || wanted.empty()) continue;
      const bool same_host = extra.host == input_.cluster.host_of(device);
      std::vector<Box> rest;
      for (const Box& box : wanted) {
        if (const auto common = intersect(extra.box, box)) {
          add(same_host ? TransferClass::kSameHost : TransferClass::kCrossHost, *common,
              Location::host_memory(extra.host), device, 0);
        }
        const std::vector<Box> left = subtract(box, extra.box);
        rest.insert(rest.end(), left.begin(), left.end());
      }
      wanted = std::move(rest);
    }
    return wanted;
  }

  void add(TransferClass transfer_class, const Box& box, Location src, DeviceId dst, int32_t hop) {
    pending_[{hop, dst, src, transfer_class}].push_back(box);
  }

  // Neighbouring boxes of one pair become one; early hops first, so that rounds can follow them.
  void emit_merged() {
    for (auto& [key, boxes] : pending_) {
      const auto& [hop, dst, src, transfer_class] = key;
      for (const Box& box : merge(std::move(boxes))) {
        plan_.operations.push_back({.transfer_class = transfer_class,
                                    .round = 0,
                                    .hop = hop,
                                    .tensor = tensor_,
                                    .box = box,
                                    .src = src,
                                    .dst = dst,
                                    .bytes = box.volume() * element_bytes_});
      }
    }
    pending_.clear();
  }

  // Operations arrive tensor by tensor, early hops first; each device's fill its rounds in that order. What is passed on
  // cannot leave before the round in which it came.
  void assign_rounds() {
    const int64_t cap = input_.options.round_bytes;
    if (cap <= 0) return;
    std::map<DeviceId, std::pair<int32_t, int64_t>> open;   // round being filled, bytes in it
    std::map<std::pair<TensorId, DeviceId>, int32_t> came;  // last round in which a tensor's parts came to a device
    for (Operation& operation : plan_.operations) {
      if (operation.transfer_class == TransferClass::kKept) continue;
      auto& [round, filled] = open[operation.dst];
      const int32_t earliest = operation.hop == 0 ? 0 : came[{operation.tensor, DeviceId(operation.src.index)}];
      if (earliest > round) {
        round = earliest;
        filled = 0;
      } else if (filled > 0 && filled + operation.bytes > cap) {
        ++round;
        filled = 0;
      }
      filled += operation.bytes;
      operation.round = round;
      came[{operation.tensor, operation.dst}] = std::max(came[{operation.tensor, operation.dst}], round);
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
  internal::Side from_, to_;
  internal::FanOut fan_out_;
  std::vector<bool> holds_;  // by device: scratch of split_devices
  Plan plan_;
  TensorId tensor_;
  int64_t element_bytes_ = 1;
  std::map<std::tuple<int32_t, DeviceId, Location, TransferClass>, std::vector<Box>> pending_;
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
