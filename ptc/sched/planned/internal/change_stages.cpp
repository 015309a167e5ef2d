#include "ptc/sched/planned/internal/change_stages.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/plan/estimate.h"

namespace scalai::sched::internal {
namespace {

using plan::Location;
using plan::TransferClass;
using Flow = FlowGroup::Flow;

bool stays(TransferClass transfer_class) {
  return transfer_class == TransferClass::kKept || transfer_class == TransferClass::kDerived;
}

// Flows between the same places become one. Sorted.
std::shared_ptr<const FlowGroup> merged(std::vector<Flow> flows) {
  const auto ends = [](const Flow& flow) { return std::tie(flow.src, flow.dst, flow.src_process, flow.dst_process); };
  std::sort(flows.begin(), flows.end(), [&](const Flow& a, const Flow& b) { return ends(a) < ends(b); });
  auto group = std::make_shared<FlowGroup>();
  for (const Flow& flow : flows) {
    if (flow.bytes == 0) continue;
    if (!group->flows.empty() && ends(group->flows.back()) == ends(flow)) {
      group->flows.back().bytes += flow.bytes;
    } else {
      group->flows.push_back(flow);
    }
  }
  return group->flows.empty() ? nullptr : group;
}

// Bytes by device, out of a plan: what is kept, what arrives.
using DeviceBytes = std::vector<int64_t>;

class Stages {
 public:
  explicit Stages(const StageInput& input)
      : in_(input),
        cluster_(input.change.cluster()),
        hub_(input.change.hub()),
        staged_(!input.strategy.planner.in_place),
        rounds_(static_cast<size_t>(input.plan.rounds)),
        kept_(static_cast<size_t>(cluster_.device_count()), 0),
        received_(kept_) {
    read_plan();
  }

  std::vector<ChangeStage> build() {
    const ChangeStrategy& costs = in_.strategy;
    if (staged_ && in_.source == ChangePlanner::Source::kDevices) add(0, staging(), false);
    add(costs.plan_s + costs.restart_s + plan::allocate_seconds(in_.plan, costs.allocate_bytes_per_s), nullptr, false);
    if (in_.source == ChangePlanner::Source::kHostMemory) add(0, from_host_memory(kept_), true);
    for (std::vector<Flow>& round : rounds_) {
      const double wait_s = round.empty() ? 0 : costs.transfer_start_s;
      add(wait_s, pulls(merged(std::move(round))), true);
    }
    if (staged_) add(0, uploads(), true);
    const int64_t most = *std::max_element(received_.begin(), received_.end());
    const double verify_s = costs.verify_bytes_per_s > 0 ? static_cast<double>(most) / costs.verify_bytes_per_s : 0;
    add(verify_s, nullptr, false);
    add(communicator_s(costs, in_.to.ranks()), staged_ ? loading() : nullptr, false);
    return std::move(stages_);
  }

 private:
  // Waits that follow each other are one.
  void add(double wait_s, std::shared_ptr<const FlowGroup> flows, bool is_transfer) {
    const bool joins = !stages_.empty() && stages_.back().flows == nullptr && stages_.back().is_transfer == is_transfer;
    if (joins) {
      stages_.back().wait_s += wait_s;
      stages_.back().flows = std::move(flows);
    } else if (wait_s > 0 || flows != nullptr) {
      stages_.push_back({.wait_s = wait_s, .flows = std::move(flows), .is_transfer = is_transfer});
    }
  }

  void read_plan() {
    std::map<std::pair<int32_t, TransferClass>, int64_t> element_bytes;  // of a tensor set
    for (const plan::Instance& instance : in_.plan.instances) {
      for (const plan::Leg& leg : in_.plan.patterns.legs(instance.pattern)) {
        const auto [size, fresh] = element_bytes.emplace(std::pair(instance.tensors, leg.transfer_class), 0);
        if (fresh) {
          for (const TensorId id : in_.plan.tensors_of(instance))
            size->second += in_.plan.tensor(id).element_bytes(leg.transfer_class);
        }
        take(instance.round, leg, size->second * instance.box.volume());
      }
    }
  }

  void take(int32_t round, const plan::Leg& leg, int64_t bytes) {
    const auto device = static_cast<size_t>(leg.dst.value);
    if (leg.transfer_class == TransferClass::kKept) {
      kept_[device] += bytes;
      return;
    }
    received_[device] += bytes;
    if (stays(leg.transfer_class)) return;
    rounds_[static_cast<size_t>(round)].push_back(
        {.src = place_of(leg.src), .dst = in_.change.place_of(leg.dst), .bytes = bytes});
  }

  // By way of host memory a process of each rank pulls, on the target's host or the hub: they share links one by one.
  std::shared_ptr<const FlowGroup> pulls(std::shared_ptr<const FlowGroup> flows) const {
    if (!staged_ || flows == nullptr) return flows;
    auto redirected = std::make_shared<FlowGroup>(*flows);
    for (Flow& flow : redirected->flows) {
      if (hub_.valid()) flow.dst.host = hub_.value;
      flow.dst.gpu = -1;
      flow.dst_process = true;
    }
    return redirected;
  }

  Place place_of(const Location& location) const {
    switch (location.kind) {
      case Location::Kind::kDevice: return in_.change.place_of(DeviceId(location.index));
      case Location::Kind::kHostMemory: return {.host = location.index, .gpu = -1};
      case Location::Kind::kStorage: break;
    }
    return {};
  }

  int32_t home_of(DeviceId device) const { return hub_.valid() ? hub_.value : cluster_.host_of(device).value; }

  // Kept state that was in the host's memory meanwhile.
  std::shared_ptr<const FlowGroup> from_host_memory(const DeviceBytes& bytes) const {
    std::vector<Flow> flows;
    for (size_t d = 0; d < bytes.size(); ++d) {
      if (bytes[d] == 0) continue;
      const Place place = in_.change.place_of(DeviceId(static_cast<int64_t>(d)));
      flows.push_back({.src = {.host = place.host}, .dst = place, .bytes = bytes[d], .src_process = true});
    }
    return merged(std::move(flows));
  }

  std::shared_ptr<const FlowGroup> uploads() const {
    std::vector<Flow> flows;
    for (size_t d = 0; d < kept_.size(); ++d) {
      if (kept_[d] + received_[d] == 0) continue;
      const Place memory{.host = home_of(DeviceId(static_cast<int64_t>(d)))};
      flows.push_back({.src = memory, .dst = memory, .bytes = kept_[d] + received_[d], .src_process = true});
    }
    return merged(std::move(flows));
  }

  // Survivors write their state into host memory: what data-parallel replicas hold alike once, unless any replica may
  // be pulled from. With ZeRO a replica's optimizer state is its own.
  std::shared_ptr<const FlowGroup> staging() const;

  std::shared_ptr<const FlowGroup> loading() const {
    std::vector<Flow> flows;
    const std::vector<int64_t> bytes = state_bytes_of_ranks(in_.to);
    for (size_t rank = 0; rank < bytes.size(); ++rank) {
      const DeviceId device = in_.to.device_of_rank[rank];
      flows.push_back({.src = {.host = home_of(device)}, .dst = in_.change.place_of(device), .bytes = bytes[rank]});
    }
    return merged(std::move(flows));
  }

  const StageInput& in_;
  const plan::Cluster& cluster_;
  const HostId hub_;
  const bool staged_;
  std::vector<std::vector<Flow>> rounds_;
  DeviceBytes kept_, received_;
  std::vector<ChangeStage> stages_;
};

// Tensors that lie alike: layers of a stage, states of an optimizer.
struct Alike {
  TensorId first;
  int64_t bytes_an_element = 0;  // of all of them
};

std::vector<Alike> alike_tensors(const collection::Collection& collection) {
  const auto same = [](const collection::LogicalTensor& a, const collection::LogicalTensor& b) {
    return a.shape == b.shape && a.mesh == b.mesh && a.pins == b.pins && a.layout == b.layout;
  };
  std::vector<Alike> found;
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    const collection::LogicalTensor& tensor = collection.tensors[i];
    auto known = std::find_if(found.begin(), found.end(), [&](const Alike& alike) {
      return same(collection.tensors[static_cast<size_t>(alike.first.value)], tensor);
    });
    if (known == found.end())
      known = found.insert(found.end(), {.first = TensorId(static_cast<int64_t>(i)), .bytes_an_element = 0});
    known->bytes_an_element += tensor::size_of(tensor.dtype);
  }
  return found;
}

// What tells a rank's share of a tensor from others': its place in the mesh but for the replica, and its boxes.
using Share = std::pair<std::vector<int>, std::vector<tensor::Box>>;

Share share_of(const collection::Mesh& mesh, LogicalRank rank, const tensor::LocalBuffer& buffer) {
  Share share;
  for (const collection::MeshAxis& axis : mesh.axes()) {
    if (axis.name != "dp") share.first.push_back(mesh.coordinate(rank, axis.name));
  }
  for (const tensor::Piece& piece : buffer.pieces) share.second.push_back(piece.box);
  return share;
}

std::shared_ptr<const FlowGroup> Stages::staging() const {
  const bool every_replica = in_.strategy.planner.sources != plan::SourceRule::kFirstReplica;
  std::vector<int64_t> bytes(static_cast<size_t>(in_.from.ranks()), 0);
  for (const Alike& alike : alike_tensors(in_.from)) {
    std::set<Share> staged;
    for (int rank = 0; rank < in_.from.ranks(); ++rank) {
      const LogicalRank id(rank);
      if (in_.lost.count(in_.from.device_of_rank[static_cast<size_t>(rank)]) != 0) continue;
      const tensor::LocalBuffer buffer = in_.from.pieces(alike.first, id);
      const bool first = every_replica || staged.insert(share_of(in_.from.meshes.front(), id, buffer)).second;
      if (first) bytes[static_cast<size_t>(rank)] += buffer.elements * alike.bytes_an_element;
    }
  }
  std::vector<Flow> flows;
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    const DeviceId device = in_.from.device_of_rank[rank];
    flows.push_back({.src = in_.change.place_of(device), .dst = {.host = home_of(device)}, .bytes = bytes[rank]});
  }
  return merged(std::move(flows));
}

}  // namespace

std::vector<int64_t> state_bytes_of_ranks(const collection::Collection& collection) {
  std::vector<int64_t> bytes(static_cast<size_t>(collection.ranks()), 0);
  for (const Alike& alike : alike_tensors(collection)) {
    for (int rank = 0; rank < collection.ranks(); ++rank)
      bytes[static_cast<size_t>(rank)] +=
          collection.pieces(alike.first, LogicalRank(rank)).elements * alike.bytes_an_element;
  }
  return bytes;
}

std::vector<ChangeStage> stages_of(const StageInput& input) { return Stages(input).build(); }

}  // namespace scalai::sched::internal
