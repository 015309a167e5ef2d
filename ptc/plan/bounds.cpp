#include "ptc/plan/bounds.h"

#include <algorithm>
#include <map>
#include <set>

#include "ptc/plan/internal/fan_out.h"
#include "ptc/plan/internal/spread.h"

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

Spread spread_of(internal::Side& side, const Cluster& cluster, TensorId id, const std::set<DeviceId>& lost) {
  Spread spread;
  for (const internal::HeldBox& held : side.spread_of(id, lost)) {
    for (const DeviceId device : held.devices) {
      spread.by_device[device].insert(held.box);
      spread.by_host[cluster.host_of(device)].insert(held.box);
    }
    spread.all.insert(held.box);
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

// For each needed box, its elements outside all of `others`. Looks only at those that overlap.
std::map<Box, int64_t> outside_each(const BoxSet& needed, const BoxSet& others) {
  std::vector<internal::HeldBox> list;
  for (const Box& other : others) list.push_back({other, {}});
  const internal::BoxIndex index(list);
  std::map<Box, int64_t> result;
  for (const Box& box : needed) {
    std::vector<Box> touching;
    index.overlaps(box, [&](size_t, const Box& common) { touching.push_back(common); });
    int64_t volume = 0;
    for (const Box& part : subtract(box, touching)) volume += part.volume();
    result.emplace(box, volume);
  }
  return result;
}

int64_t sum_of(const BoxSet& boxes, const std::map<Box, int64_t>& values) {
  int64_t sum = 0;
  for (const Box& box : boxes) sum += values.at(box);
  return sum;
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
  explicit BoundBuilder(const PlannerInput& input) : input_(input), from_(input.from), to_(input.to) {}

  Bounds run() {
    if (input_.to.ranks() == 0) return bounds_;
    for (const DeviceId device : input_.to.device_of_rank) {
      needed_by_device_[device] = 0;  // some need nothing
      targets_.insert(input_.cluster.host_of(device));
    }
    for (const std::vector<TensorId>& group : internal::alike(input_.from, input_.to, input_.residency))
      add_group(group);
    ClassBytes& bound = bounds_.given_placement;
    bound.same_host = moved_ - bound.cross_host;
    int64_t least = needed_by_device_.begin()->second;
    for (const auto& [device, bytes] : needed_by_device_) least = std::min(least, bytes);
    int64_t by_host = 0;
    for (const HostId host : targets_) by_host += std::max<int64_t>(0, least - held_by_host_[host] - lost_everywhere_);
    bounds_.any_placement_cross_host = std::max(nowhere_at_target_, by_host);
    return bounds_;
  }

 private:
  // Tensors alike count as one of so many times the size.
  void add_group(const std::vector<TensorId>& group) {
    const TensorId id = group.front();
    const int64_t size =
        tensor::size_of(input_.to.tensors[static_cast<size_t>(id.value)].dtype) * static_cast<int64_t>(group.size());
    Spread held = spread_of(from_, input_.cluster, id, input_.residency.lost);
    const Spread needed = spread_of(to_, input_.cluster, id, {});
    BoxSet copies;  // of host memory; they may overlap the devices' boxes, subtraction copes
    for (const collection::ExtraHolder& extra : input_.residency.extra) {
      if (extra.tensor != id) continue;
      copies.insert(extra.box);
      held.by_host[extra.host].insert(extra.box);
    }
    BoxSet anywhere = held.all;
    anywhere.insert(copies.begin(), copies.end());
    const std::map<Box, int64_t> unheld = outside_each(needed.all, anywhere);
    for (const auto& [device, boxes] : needed.by_device) {
      add_device(boxes, find_or_empty(held.by_device, device), unheld, device, size);
    }
    for (const auto& [host, boxes] : needed.by_host) {
      const int64_t missing = outside(boxes, find_or_empty(held.by_host, host));
      bounds_.given_placement.cross_host += (missing - sum_of(boxes, unheld)) * size;
    }
    BoxSet at_target;
    for (const HostId host : targets_) {
      const BoxSet& here = find_or_empty(held.by_host, host);
      held_by_host_[host] += volume_of(here) * size;
      at_target.insert(here.begin(), here.end());
    }
    const int64_t lost = sum_of(needed.all, unheld);
    lost_everywhere_ += lost * size;
    nowhere_at_target_ += (sum_of(needed.all, outside_each(needed.all, at_target)) - lost) * size;
  }

  void add_device(const BoxSet& needed, const BoxSet& held, const std::map<Box, int64_t>& unheld_of, DeviceId device,
                  int64_t size) {
    ClassBytes& bound = bounds_.given_placement;
    for (const Box& box : needed) {
      const int64_t missing = outside(box, held);
      const int64_t unheld = unheld_of.at(box);
      (held.count(box) != 0 ? bound.kept : bound.same_device) += (box.volume() - missing) * size;
      bound.from_storage += unheld * size;
      moved_ += (missing - unheld) * size;
      needed_by_device_[device] += box.volume() * size;
    }
  }

  const PlannerInput& input_;
  internal::Side from_, to_;
  std::set<HostId> targets_;
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
  auto least = cluster.hosts.size();
  internal::Side side(collection);
  for (const std::vector<TensorId>& group : internal::alike(collection, collection, {})) {
    for (const internal::HeldBox& held : side.spread_of(group.front(), {})) {
      least = std::min(least, internal::by_host(held.devices, cluster).groups.size() - 1);
    }
  }
  return static_cast<int>(least);
}

}  // namespace scalai::plan
