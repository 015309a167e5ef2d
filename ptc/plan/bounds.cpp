#include "ptc/plan/bounds.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "ptc/plan/internal/difference.h"

namespace scalai::plan {
namespace {

using internal::Difference;
using internal::GroupDifference;
using internal::Overlap;
using Hosts = std::vector<HostId>;  // ascending

Hosts hosts_of(const std::vector<DeviceId>& devices, const cluster::Cluster& cluster) {
  Hosts hosts;
  for (const DeviceId device : devices) hosts.push_back(cluster.host_of(device));
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return hosts;
}

template <class T>
std::vector<T> without(const std::vector<T>& list, const std::vector<T>& others) {
  std::vector<T> rest;
  std::set_difference(list.begin(), list.end(), others.begin(), others.end(), std::back_inserter(rest));
  return rest;
}

std::vector<DeviceId> sorted(std::vector<DeviceId> devices) {
  std::sort(devices.begin(), devices.end());
  return devices;
}

// How many devices and hosts a part concerns; the same for all parts with the same holders and wanting.
struct Counts {
  int64_t local = 0;               // devices that hold and want it
  int64_t derive = 0;              // of the others: devices whose own master covers it
  int64_t fetch = 0;               // the rest
  int64_t fetch_hosts = 0;         // hosts of the rest where nobody holds it, or derives it from a master if it is held
  bool nowhere_at_target = false;  // somebody holds it, but nobody on a target host
};

class BoundBuilder {
 public:
  BoundBuilder(const PlannerInput& input, const Difference& difference, StorageReads reads)
      : input_(input),
        difference_(difference),
        reads_(input.residency.storage ? reads : StorageReads::kEachDevice),
        targets_(hosts_of(input.to.device_of_rank, input.cluster)),
        is_target_(input.cluster.hosts.size(), false),
        wanted_of_set_(static_cast<size_t>(difference.new_sets.size()), 0) {
    for (const HostId host : targets_) is_target_[static_cast<size_t>(host.value)] = true;
  }

  Bounds run() {
    if (input_.to.ranks() == 0) return bounds_;
    for (const GroupDifference& group : difference_.groups) {
      for (const Overlap& overlap : group.overlaps) add(group, overlap);
    }
    bounds_.given_placement.same_host = moved_ - bounds_.given_placement.cross_host;
    bounds_.any_placement_cross_host = std::max(nowhere_at_target_, least_by_host());
    return bounds_;
  }

 private:
  void add(const GroupDifference& group, const Overlap& overlap) {
    const auto first = static_cast<size_t>(group.tensors.front().value);
    const int64_t now = tensor::size_of(input_.to.tensors[first].dtype);
    const int64_t before = tensor::size_of(input_.from.tensors[first].dtype);
    const int64_t elements = overlap.box.volume() * static_cast<int64_t>(group.tensors.size());
    const Counts counts = counts_of(overlap);
    ClassBytes& bound = bounds_.given_placement;
    if (overlap.side != Overlap::Side::kRemote) {
      const bool keeps = overlap.whole && input_.to.tensors[first].dtype == input_.from.tensors[first].dtype;
      (keeps ? bound.kept : bound.same_device) += counts.local * elements * now;
    }
    if (overlap.side == Overlap::Side::kLocal) return;
    const int64_t wire = elements * std::min(now, before);
    bound.derived += counts.derive * elements * now;
    const bool held = overlap.holders >= 0 || overlap.copies >= 0;
    if (held) {
      moved_ += counts.fetch * wire;
      bound.cross_host += counts.fetch_hosts * wire;
    } else {
      const int64_t reads = reads_of(counts);
      bound.from_storage += reads * elements * before;
      moved_ += (counts.fetch - reads) * wire;
      if (reads_ == StorageReads::kOnce) bound.cross_host += (counts.fetch_hosts - reads) * wire;
    }
    if (difference_.derived_from[first].valid()) return;
    wanted_of_set_[static_cast<size_t>(overlap.wanting)] += wire;
    if (counts.nowhere_at_target) nowhere_at_target_ += wire;
    if (held) {
      held_by_[{overlap.holders, overlap.copies}] += wire;
    } else {
      lost_everywhere_ += wire;
    }
  }

  int64_t reads_of(const Counts& counts) const {
    if (reads_ == StorageReads::kEachDevice) return counts.fetch;
    return reads_ == StorageReads::kEachHost ? counts.fetch_hosts : std::min<int64_t>(counts.fetch_hosts, 1);
  }

  Counts counts_of(const Overlap& overlap) {
    if (overlap.holders >= 0 && overlap.masters < 0 && overlap.copies < 0) {
      const std::vector<DeviceId>& holders = difference_.old_sets[overlap.holders];
      const std::vector<DeviceId>& wanting = difference_.new_sets[overlap.wanting];
      if (holders.size() == 1 && wanting.size() == 1) return count(holders.front(), wanting.front());
    }
    const std::array<int32_t, 4> key = {overlap.holders, overlap.wanting, overlap.masters, overlap.copies};
    const auto [entry, fresh] = counts_.try_emplace(key);
    if (fresh) entry->second = count(overlap);
    return entry->second;
  }

  Hosts holding_hosts(int32_t holders, int32_t copies) const {
    Hosts hosts = holders >= 0 ? hosts_of(difference_.old_sets[holders], input_.cluster) : Hosts();
    if (copies >= 0) {
      const Hosts& more = difference_.copy_hosts[static_cast<size_t>(copies)];
      hosts.insert(hosts.end(), more.begin(), more.end());
      std::sort(hosts.begin(), hosts.end());
      hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    }
    return hosts;
  }

  bool at_target(HostId host) const { return is_target_[static_cast<size_t>(host.value)]; }

  Counts count(const Overlap& overlap) const {
    const std::vector<DeviceId> wanting = sorted(difference_.new_sets[overlap.wanting]);
    const std::vector<DeviceId> others =
        overlap.holders >= 0 ? without(wanting, sorted(difference_.old_sets[overlap.holders])) : wanting;
    const std::vector<DeviceId> fetch =
        overlap.masters >= 0 ? without(others, sorted(difference_.new_sets[overlap.masters])) : others;
    const Hosts holding = holding_hosts(overlap.holders, overlap.copies);
    Hosts lacking = without(hosts_of(fetch, input_.cluster), holding);
    if (overlap.masters >= 0 && !holding.empty())
      lacking = without(lacking, hosts_of(without(others, fetch), input_.cluster));
    return {.local = static_cast<int64_t>(wanting.size() - others.size()),
            .derive = static_cast<int64_t>(others.size() - fetch.size()),
            .fetch = static_cast<int64_t>(fetch.size()),
            .fetch_hosts = static_cast<int64_t>(lacking.size()),
            .nowhere_at_target = !holding.empty() && std::none_of(holding.begin(), holding.end(),
                                                                  [&](HostId host) { return at_target(host); })};
  }

  // The same for one device on each side, which most shards of a big job have.
  Counts count(DeviceId holder, DeviceId wanting) const {
    const HostId from = input_.cluster.host_of(holder), to = input_.cluster.host_of(wanting);
    return {.local = holder == wanting ? 1 : 0,
            .derive = 0,
            .fetch = holder == wanting ? 0 : 1,
            .fetch_hosts = from == to ? 0 : 1,
            .nowhere_at_target = !at_target(from)};
  }

  int64_t least_by_host() const {
    std::vector<int64_t> needed(static_cast<size_t>(input_.cluster.device_count()), 0);
    for (int32_t set = 0; set < difference_.new_sets.size(); ++set) {
      for (const DeviceId device : difference_.new_sets[set])
        needed[static_cast<size_t>(device.value)] += wanted_of_set_[static_cast<size_t>(set)];
    }
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const DeviceId device : input_.to.device_of_rank)
      least = std::min(least, needed[static_cast<size_t>(device.value)]);
    std::vector<int64_t> held(input_.cluster.hosts.size(), 0);
    for (const auto& [who, bytes] : held_by_) {
      for (const HostId host : holding_hosts(who.first, who.second)) held[static_cast<size_t>(host.value)] += bytes;
    }
    int64_t sum = 0;
    for (const HostId host : targets_)
      sum += std::max<int64_t>(0, least - held[static_cast<size_t>(host.value)] - lost_everywhere_);
    return sum;
  }

  const PlannerInput& input_;
  const Difference& difference_;
  const StorageReads reads_;
  const Hosts targets_;
  std::vector<bool> is_target_;  // by host
  Bounds bounds_;
  int64_t moved_ = 0;
  int64_t nowhere_at_target_ = 0;
  int64_t lost_everywhere_ = 0;
  std::vector<int64_t> wanted_of_set_;                                 // bytes, by set of the new side
  absl::flat_hash_map<std::pair<int32_t, int32_t>, int64_t> held_by_;  // bytes, by holders and copies
  absl::flat_hash_map<std::array<int32_t, 4>, Counts> counts_;         // by holders, wanting, masters, copies
};

// The least number of hosts with an element of a tensor whose copies are whole boxes; nothing if one of them is not.
std::optional<size_t> fewest_hosts_of_whole(const std::vector<internal::HeldBox>& boxes,
                                            const std::vector<Hosts>& hosts_of_sets,
                                            const std::vector<const collection::ExtraHolder*>& copies) {
  std::vector<std::pair<size_t, HostId>> copied;  // box and host
  for (const collection::ExtraHolder* copy : copies) {
    const auto found =
        std::lower_bound(boxes.begin(), boxes.end(), copy->box,
                         [](const internal::HeldBox& held, const tensor::Box& box) { return held.box < box; });
    if (found == boxes.end() || found->box != copy->box) return std::nullopt;
    copied.emplace_back(found - boxes.begin(), copy->host);
  }
  std::sort(copied.begin(), copied.end());
  copied.erase(std::unique(copied.begin(), copied.end()), copied.end());
  size_t fewest = std::numeric_limits<size_t>::max();
  auto copy = copied.begin();
  for (size_t box = 0; box < boxes.size(); ++box) {
    const Hosts& own = hosts_of_sets[static_cast<size_t>(boxes[box].set)];
    size_t hosts = own.size();
    for (; copy != copied.end() && copy->first == box; ++copy) {
      if (!std::binary_search(own.begin(), own.end(), copy->second)) ++hosts;
    }
    fewest = std::min(fewest, hosts);
  }
  return fewest;
}

// The same for any copies. They may overlap in any way; cells of elements do not.
size_t fewest_hosts(const std::vector<internal::HeldBox>& boxes, const internal::DeviceSets& sets,
                    const std::vector<const collection::ExtraHolder*>& copies, const cluster::Cluster& cluster) {
  struct Cell {
    tensor::Box box;
    std::set<HostId> hosts;
  };
  std::vector<std::vector<Cell>> cells;  // by box
  for (const internal::HeldBox& held : boxes) {
    const Hosts hosts = hosts_of(sets[held.set], cluster);
    cells.push_back({{held.box, {hosts.begin(), hosts.end()}}});
  }
  const internal::BoxIndex index(boxes);
  for (const collection::ExtraHolder* copy : copies) {
    index.overlaps(copy->box, [&](size_t i, const tensor::Box&) {
      std::vector<Cell> finer;
      for (Cell& cell : cells[i]) {
        const auto common = tensor::intersect(cell.box, copy->box);
        for (const tensor::Box& rest : common ? tensor::subtract(cell.box, copy->box) : std::vector{cell.box})
          finer.push_back({rest, cell.hosts});
        if (!common) continue;
        finer.push_back({*common, std::move(cell.hosts)});
        finer.back().hosts.insert(copy->host);
      }
      cells[i] = std::move(finer);
    });
  }
  size_t fewest = cluster.hosts.size();
  for (const std::vector<Cell>& parts : cells) {
    for (const Cell& cell : parts) fewest = std::min(fewest, cell.hosts.size());
  }
  return fewest;
}

int least_spread(const internal::DeviceSets& sets, const std::vector<int64_t>& bytes, const cluster::Cluster& cluster) {
  size_t least = cluster.hosts.size();
  for (int32_t set = 0; set < sets.size(); ++set) {
    if (bytes[static_cast<size_t>(set)] > 0) least = std::min(least, hosts_of(sets[set], cluster).size() - 1);
  }
  return static_cast<int>(least);
}

}  // namespace

Bounds lower_bounds(const PlannerInput& input, StorageReads reads) {
  return lower_bounds(input, internal::difference_of(input), reads);
}

Bounds lower_bounds(const PlannerInput& input, const Difference& difference, StorageReads reads) {
  return BoundBuilder(input, difference, reads).run();
}

int survives_host_losses(const collection::Collection& collection, const cluster::Cluster& cluster,
                         const std::vector<collection::ExtraHolder>& copies) {
  std::map<TensorId, std::vector<const collection::ExtraHolder*>> copies_of;
  for (const collection::ExtraHolder& copy : copies) copies_of[copy.tensor].push_back(&copy);
  internal::Side side(collection);
  std::vector<Hosts> hosts_of_sets;
  std::vector<int64_t> used;  // by set: holds a box of a tensor without copies
  auto survives = static_cast<int>(cluster.hosts.size());
  for (const std::vector<TensorId>& group : internal::alike(collection, collection)) {
    std::vector<internal::HeldBox> spread;
    for (const TensorId id : group) {
      if (spread.empty()) spread = side.spread_of(id);
      const auto own = copies_of.find(id);
      if (own != copies_of.end()) {
        while (hosts_of_sets.size() < static_cast<size_t>(side.sets().size()))
          hosts_of_sets.push_back(hosts_of(side.sets()[static_cast<int32_t>(hosts_of_sets.size())], cluster));
        const auto whole = fewest_hosts_of_whole(spread, hosts_of_sets, own->second);
        const size_t fewest =
            whole ? std::min(*whole, cluster.hosts.size()) : fewest_hosts(spread, side.sets(), own->second, cluster);
        survives = std::min(survives, static_cast<int>(fewest) - 1);
        continue;
      }
      for (const internal::HeldBox& held : spread) {
        used.resize(std::max(used.size(), static_cast<size_t>(held.set) + 1), 0);
        used[static_cast<size_t>(held.set)] = 1;
      }
    }
  }
  used.resize(static_cast<size_t>(side.sets().size()), 0);
  return std::min(survives, least_spread(side.sets(), used, cluster));
}

int survives_host_losses(const Difference& difference, const cluster::Cluster& cluster) {
  return least_spread(difference.new_sets, difference.new_bytes, cluster);
}

}  // namespace scalai::plan
