#include "ptc/plan/bounds.h"

#include <algorithm>
#include <map>
#include <set>

namespace scalai::plan {
namespace {

using tensor::Box;
using BoxSet = std::set<Box>;

// Boxes of one tensor by who has them.
struct Spread {
  std::map<DeviceId, BoxSet> by_device;
  std::map<HostId, BoxSet> by_host;
  BoxSet all;
};

Spread spread_of(const collection::Collection& collection, const Cluster& cluster, TensorId id,
                 const std::set<DeviceId>& lost) {
  Spread spread;
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    const DeviceId device = collection.device_of_rank[static_cast<size_t>(rank)];
    if (lost.count(device) != 0) continue;
    for (const tensor::Piece& piece : collection.pieces(id, LogicalRank(rank)).pieces) {
      spread.by_device[device].insert(piece.box);
      spread.by_host[cluster.host_of(device)].insert(piece.box);
      spread.all.insert(piece.box);
    }
  }
  return spread;
}

// Elements of `box` outside all of `others`.
int64_t outside(const Box& box, const BoxSet& others) {
  if (others.count(box) != 0) return 0;
  std::vector<Box> touching;
  for (const Box& other : others) {
    if (intersect(box, other)) touching.push_back(other);
  }
  int64_t volume = 0;
  for (const Box& part : subtract(box, touching)) volume += part.volume();
  return volume;
}

int64_t outside(const BoxSet& boxes, const BoxSet& others) {
  int64_t volume = 0;  // boxes of one collection are equal or disjoint
  for (const Box& box : boxes) volume += outside(box, others);
  return volume;
}

int64_t volume_of(const BoxSet& boxes) {
  int64_t volume = 0;
  for (const Box& box : boxes) volume += box.volume();
  return volume;
}

template <class Key>
const BoxSet& find_or_empty(const std::map<Key, BoxSet>& map, Key key) {
  static const BoxSet kEmpty;
  const auto found = map.find(key);
  return found == map.end() ? kEmpty : found->second;
}

class BoundBuilder {
 public:
  explicit BoundBuilder(const PlannerInput& input) : input_(input) {}

  Bounds run() {
    if (input_.to.ranks() == 0) return bounds_;
    for (const DeviceId device : input_.to.device_of_rank) needed_by_device_[device] = 0;  // some need nothing
    for (size_t i = 0; i < input_.to.tensors.size(); ++i) add_tensor(TensorId(static_cast<int64_t>(i)));
    ClassBytes& bound = bounds_.given_placement;
    bound.same_host = moved_ - bound.cross_host;
    int64_t least = needed_by_device_.begin()->second;
    for (const auto& [device, bytes] : needed_by_device_) least = std::min(least, bytes);
    int64_t by_host = 0;
    for (const HostId host : target_hosts())
      by_host += std::max<int64_t>(0, least - held_by_host_[host] - lost_everywhere_);
    bounds_.any_placement_cross_host = std::max(nowhere_at_target_, by_host);
    return bounds_;
  }

 private:
  std::set<HostId> target_hosts() const {
    std::set<HostId> hosts;
    for (const DeviceId device : input_.to.device_of_rank) hosts.insert(input_.cluster.host_of(device));
    return hosts;
  }

  void add_tensor(TensorId id) {
    const int64_t size = tensor::size_of(input_.to.tensors[static_cast<size_t>(id.value)].dtype);
    Spread held = spread_of(input_.from, input_.cluster, id, input_.residency.lost);
    const Spread needed = spread_of(input_.to, input_.cluster, id, {});
    BoxSet copies;  // of host memory; they may overlap the devices' boxes, subtraction copes
    for (const collection::ExtraHolder& extra : input_.residency.extra) {
      if (extra.tensor != id) continue;
      copies.insert(extra.box);
      held.by_host[extra.host].insert(extra.box);
    }
    BoxSet anywhere = held.all;
    anywhere.insert(copies.begin(), copies.end());
    for (const auto& [device, boxes] : needed.by_device)
      add_device(boxes, find_or_empty(held.by_device, device), anywhere, device, size);
    for (const auto& [host, boxes] : needed.by_host) {
      const int64_t unheld = outside(boxes, anywhere);
      bounds_.given_placement.cross_host += (outside(boxes, find_or_empty(held.by_host, host)) - unheld) * size;
    }
    BoxSet at_target;
    for (const HostId host : target_hosts()) {
      const BoxSet& here = find_or_empty(held.by_host, host);
      held_by_host_[host] += volume_of(here) * size;
      at_target.insert(here.begin(), here.end());
    }
    const int64_t lost = outside(needed.all, anywhere);
    lost_everywhere_ += lost * size;
    nowhere_at_target_ += (outside(needed.all, at_target) - lost) * size;
  }

  void add_device(const BoxSet& needed, const BoxSet& held, const BoxSet& anywhere, DeviceId device, int64_t size) {
    ClassBytes& bound = bounds_.given_placement;
    for (const Box& box : needed) {
      const int64_t missing = outside(box, held);
      const int64_t unheld = outside(box, anywhere);
      (held.count(box) != 0 ? bound.kept : bound.same_device) += (box.volume() - missing) * size;
      bound.from_storage += unheld * size;
      moved_ += (missing - unheld) * size;
      needed_by_device_[device] += box.volume() * size;
    }
  }

  const PlannerInput& input_;
  Bounds bounds_;
  int64_t moved_ = 0;
  int64_t nowhere_at_target_ = 0;
  int64_t lost_everywhere_ = 0;
  std::map<DeviceId, int64_t> needed_by_device_;
  std::map<HostId, int64_t> held_by_host_;
};

}  // namespace

Bounds lower_bounds(const PlannerInput& input) { return BoundBuilder(input).run(); }

int survives_host_losses(const collection::Collection& collection, const Cluster& cluster) {
  int least = static_cast<int>(cluster.hosts.size());
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    std::map<Box, std::set<HostId>> hosts_of_box;
    for (int rank = 0; rank < collection.ranks(); ++rank) {
      const HostId host = cluster.host_of(collection.device_of_rank[static_cast<size_t>(rank)]);
      for (const tensor::Piece& piece :
           collection.pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces) {
        hosts_of_box[piece.box].insert(host);
      }
    }
    for (const auto& [box, hosts] : hosts_of_box) least = std::min(least, static_cast<int>(hosts.size()) - 1);
  }
  return std::max(least, 0);
}

}  // namespace scalai::plan
