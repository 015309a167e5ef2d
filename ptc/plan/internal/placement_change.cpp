#include "ptc/plan/internal/placement_change.h"

#include <algorithm>
#include <array>

#include "absl/container/flat_hash_map.h"
#include "ptc/base/status.h"

namespace scalai::plan {
namespace {

using internal::Difference;
using internal::GroupDifference;
using internal::Overlap;

// Remembers which of many small numbers are in the set at hand, without clearing in between.
class MarkSet {
 public:
  explicit MarkSet(size_t size) : mark_(size, 0) {}
  void clear() { ++now_; }
  bool add(size_t i) { return std::exchange(mark_[i], now_) != now_; }  // whether it is new
  bool has(size_t i) const { return mark_[i] == now_; }

 private:
  std::vector<int> mark_;
  int now_ = 1;
};

size_t index_of(DeviceId device) { return static_cast<size_t>(device.value); }
size_t index_of(HostId host) { return static_cast<size_t>(host.value); }

// Ranks stand for devices, with numbers that no device has.
Difference difference_by_rank(const PlannerInput& input) {
  collection::Collection by_rank = input.to;
  for (size_t rank = 0; rank < by_rank.device_of_rank.size(); ++rank)
    by_rank.device_of_rank[rank] = DeviceId(input.cluster.device_count() + static_cast<int64_t>(rank));
  return internal::difference_of({.from = input.from,
                                  .to = by_rank,
                                  .cluster = input.cluster,
                                  .residency = input.residency,
                                  .options = input.options});
}

}  // namespace

RankedChange::RankedChange(const PlannerInput& input, SpreadRule spread)
    : input_(input), spread_(spread), parts_of_rank_(static_cast<size_t>(input.to.ranks())) {
  for (int device = 0; device < input.cluster.device_count(); ++device)
    host_of_.push_back(input.cluster.host_of(DeviceId(device)));
  const Difference difference = difference_by_rank(input);
  for (int32_t set = 0; set < difference.old_sets.size(); ++set) {
    device_sets_.push_back(difference.old_sets[set]);
    std::sort(device_sets_.back().begin(), device_sets_.back().end());
  }
  for (int32_t set = 0; set < difference.new_sets.size(); ++set) {
    std::vector<int32_t>& ranks = rank_sets_.emplace_back();
    for (const DeviceId rank : difference.new_sets[set]) ranks.push_back(rank.value - input.cluster.device_count());
    std::sort(ranks.begin(), ranks.end());
  }
  add_parts(difference);
  add_replicas(difference);
}

void RankedChange::add_parts(const Difference& difference) {
  absl::flat_hash_map<std::array<int32_t, 4>, size_t> known;
  for (const GroupDifference& group : difference.groups) {
    const auto first = static_cast<size_t>(group.tensors.front().value);
    const int64_t now = tensor::size_of(input_.to.tensors[first].dtype);
    const int64_t before = tensor::size_of(input_.from.tensors[first].dtype);
    for (const Overlap& overlap : group.overlaps) {
      const std::array<int32_t, 4> key = {overlap.holders, overlap.wanting, overlap.masters, overlap.copies};
      const auto [entry, fresh] = known.try_emplace(key, parts_.size());
      if (fresh) {
        parts_.push_back({.holders = overlap.holders,
                          .wanting = overlap.wanting,
                          .masters = overlap.masters,
                          .holding = holding_list(difference, overlap.holders, overlap.copies)});
      }
      Part& part = parts_[entry->second];
      const int64_t elements = overlap.box.volume() * static_cast<int64_t>(group.tensors.size());
      if (overlap.side != Overlap::Side::kRemote &&
          !(overlap.whole && now == before && input_.to.tensors[first].dtype == input_.from.tensors[first].dtype))
        part.copied += elements * now;
      if (overlap.side == Overlap::Side::kLocal) continue;
      (part.holding >= 0 ? part.wire : part.storage) += elements * (part.holding >= 0 ? std::min(now, before) : before);
    }
  }
  std::stable_sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.holders < b.holders; });
  for (size_t i = 0; i < parts_.size(); ++i) {
    for (const int32_t rank : ranks_of(parts_[i].wanting))
      parts_of_rank_[static_cast<size_t>(rank)].push_back(static_cast<int32_t>(i));
  }
}

int32_t RankedChange::holding_list(const Difference& difference, int32_t holders, int32_t copies) {
  if (holders < 0 && copies < 0) return -1;
  std::vector<HostId> hosts;
  if (holders >= 0) {
    for (const DeviceId device : difference.old_sets[holders]) hosts.push_back(host_of(device));
  }
  if (copies >= 0) {
    const std::vector<HostId>& more = difference.copy_hosts[static_cast<size_t>(copies)];
    hosts.insert(hosts.end(), more.begin(), more.end());
  }
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  const auto [entry, fresh] = known_lists_.try_emplace(hosts, static_cast<int32_t>(host_lists_.size()));
  if (fresh) host_lists_.push_back(std::move(hosts));
  return entry->second;
}

void RankedChange::add_replicas(const Difference& difference) {
  if (input_.to.meshes.empty()) return;
  const collection::Mesh& mesh = input_.to.meshes.front();
  if (!mesh.axes().empty() && mesh.axes().front().name == "tp") tensor_group_ = mesh.axes().front().size;
  replicas_ = mesh.axis_size("dp");
  for (int32_t rank = 0; rank < ranks(); ++rank) replica_of_.push_back(mesh.coordinate(LogicalRank(rank), "dp"));
  if (spread_ == SpreadRule::kNone) return;
  for (size_t set = 0; set < rank_sets_.size(); ++set) {
    const std::vector<int32_t>& holders = rank_sets_[set];
    const bool several = std::any_of(holders.begin(), holders.end(),
                                     [&](int32_t rank) { return replica_of(rank) != replica_of(holders.front()); });
    if (several && difference.new_bytes[set] > 0)
      replicated_.emplace_back(static_cast<int32_t>(set), difference.new_bytes[set]);
  }
}

int RankedChange::domain_of(HostId host) const {
  return spread_ == SpreadRule::kRack ? input_.cluster.rack_of(host) : host.value;
}

int64_t RankedChange::in_one_domain(const std::vector<HostId>& host_of_rank) const {
  int64_t bytes = 0;
  for (const auto& [set, size] : replicated_) {
    const std::vector<int32_t>& holders = ranks_of(set);
    const auto domain = [&](int32_t rank) { return domain_of(host_of_rank[static_cast<size_t>(rank)]); };
    const bool one = std::all_of(holders.begin(), holders.end(),
                                 [&](int32_t rank) { return domain(rank) == domain(holders.front()); });
    if (one) bytes += size;
  }
  return bytes;
}

int64_t RankedChange::most_moved() const {
  int64_t bytes = 0;
  for (const Part& part : parts_) {
    int64_t fetching = static_cast<int64_t>(ranks_of(part.wanting).size());
    if (part.masters >= 0) {
      const std::vector<int32_t>& masters = ranks_of(part.masters);
      for (const int32_t rank : ranks_of(part.wanting)) {
        if (std::binary_search(masters.begin(), masters.end(), rank)) --fetching;
      }
    }
    bytes += fetching * (part.wire + part.storage);
  }
  return bytes;
}

// Counts as bounds.cpp does: a box once a host that lacks it, and once a device that cannot derive it.
PlacementCost RankedChange::cost(const std::vector<DeviceId>& device_of_rank) const {
  PlacementCost cost;
  if (!replicated_.empty()) {
    std::vector<HostId> hosts;
    for (const DeviceId device : device_of_rank) hosts.push_back(host_of(device));
    cost.in_one_domain = in_one_domain(hosts);
  }
  MarkSet holders(host_of_.size()), masters(device_of_rank.size());
  MarkSet served(input_.cluster.hosts.size());  // hosts that hold or derive the part, or were counted
  int32_t marked = -1;
  std::vector<HostId> fetching;
  for (const Part& part : parts_) {
    if (part.holders != marked) {
      holders.clear();
      for (const DeviceId device : device_sets_[static_cast<size_t>(marked = part.holders)])
        holders.add(index_of(device));
    }
    masters.clear();
    served.clear();
    fetching.clear();
    if (part.masters >= 0) {
      for (const int32_t rank : ranks_of(part.masters)) masters.add(static_cast<size_t>(rank));
    }
    if (part.holding >= 0) {
      for (const HostId host : hosts_of(part.holding)) served.add(index_of(host));
    }
    for (const int32_t rank : ranks_of(part.wanting)) {
      const DeviceId device = device_of_rank[static_cast<size_t>(rank)];
      if (part.holders >= 0 && holders.has(index_of(device))) {
        cost.same_device += part.copied;
      } else if (masters.has(static_cast<size_t>(rank))) {
        served.add(index_of(host_of(device)));
      } else {
        cost.moved += part.wire + part.storage;
        fetching.push_back(host_of(device));
      }
    }
    for (const HostId host : fetching) {
      if (served.add(index_of(host))) cost.cross_host += part.wire;
    }
  }
  return cost;
}

std::vector<std::vector<internal::Gain>> RankedChange::gains_of(const std::vector<int32_t>& ranks,
                                                                const std::vector<DeviceId>& devices) const {
  std::vector<std::vector<internal::Gain>> gains(ranks.size(), std::vector<internal::Gain>(devices.size()));
  if (devices.empty()) return gains;
  const auto [lowest, highest] = std::minmax_element(devices.begin(), devices.end());
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (const int32_t index : parts_of_rank_[static_cast<size_t>(ranks[i])]) {
      const Part& part = parts_[static_cast<size_t>(index)];
      if (part.holders < 0) continue;
      const std::vector<DeviceId>& holders = device_sets_[static_cast<size_t>(part.holders)];
      const auto begin = std::lower_bound(holders.begin(), holders.end(), *lowest);
      const auto end = std::upper_bound(begin, holders.end(), *highest);
      if (begin == end) continue;
      const bool derives = part.masters >= 0 &&
                           std::binary_search(ranks_of(part.masters).begin(), ranks_of(part.masters).end(), ranks[i]);
      const internal::Gain gain{derives ? 0 : part.wire, -part.copied};
      for (size_t j = 0; j < devices.size(); ++j) {
        if (std::binary_search(begin, end, devices[j])) gains[i][j] += gain;
      }
    }
  }
  return gains;
}

}  // namespace scalai::plan
