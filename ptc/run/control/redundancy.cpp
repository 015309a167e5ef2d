#include "ptc/run/control/internal/redundancy.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "ptc/plan/bounds.h"
#include "ptc/state/collection/rank_parts.h"

namespace scalai::control {
namespace {

using collection::Collection;
using plan::Location;

void sort_unique(std::vector<HostId>& hosts) {
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
}

class RedundancyPlanner {
 public:
  RedundancyPlanner(const Collection& collection, const cluster::Cluster& cluster,
                    const scenario::RedundancyPolicy& policy, const std::set<HostId>& down,
                    const std::set<DeviceId>& leaving = {})
      : collection_(collection),
        cluster_(cluster),
        policy_(policy),
        leaving_(leaving),
        held_(cluster.hosts.size(), 0),
        in_pool_(cluster.hosts.size(), false) {
    find_hosts(down);
    find_boxes();
  }

  Redundancy run() {
    place();
    Redundancy found;
    absl::flat_hash_map<std::pair<int, int>, int64_t> flows;  // by device and host
    size_t copies = 0;
    for (const WantedBox& wanted : boxes_) copies += wanted.to.size();
    found.copies.reserve(copies);
    for (const WantedBox& wanted : boxes_) {
      for (const HostId host : wanted.to) {
        found.copies.push_back({wanted.tensor, wanted.place->box, host});
        found.origins.emplace_back(wanted.place->from, wanted.bytes);
        flows[{wanted.place->from.value, host.value}] += wanted.bytes;
      }
    }
    for (const auto& [ends, bytes] : std::map(flows.begin(), flows.end()))
      found.flows.push_back(
          {Location::device(DeviceId(ends.first)), Location::host_memory(HostId(ends.second)), bytes});
    found.survives_host_losses = plan::survives_host_losses(collection_, cluster_, found.copies);
    return found;
  }

 private:
  // A box in too few places, of all tensors that lie alike.
  struct Place {
    tensor::Box box;
    DeviceId from;
    std::vector<HostId> hosts;  // where it lies, ascending
    size_t missing = 0;         // copies
  };
  struct WantedBox {
    TensorId tensor;
    const Place* place = nullptr;
    int64_t bytes = 0;
    absl::InlinedVector<HostId, 2> to;
  };

  // The hosts that may take copies: those of the job if they suffice, else all that are up.
  void find_hosts(const std::set<HostId>& down) {
    for (const DeviceId device : collection_.device_of_rank) {
      const HostId host = cluster_.host_of(device);
      if (leaving_.empty() || !down.contains(host)) of_job_.push_back(host);
    }
    sort_unique(of_job_);
    const bool suffice = of_job_.size() > static_cast<size_t>(policy_.copies);
    for (size_t i = 0; i < cluster_.hosts.size(); ++i) {
      const HostId host(static_cast<int64_t>(i));
      const bool own = std::binary_search(of_job_.begin(), of_job_.end(), host);
      if (!own) rest_.push_back(host);
      in_pool_[i] = (own || !suffice) && !down.contains(host);
    }
  }

  // In order of tensors, then of boxes.
  void find_boxes() {
    const std::vector<std::vector<TensorId>> groups = collection::tensors_alike(collection_);
    places_.reserve(groups.size());
    std::vector<const std::vector<Place>*> of_tensor(collection_.tensors.size());
    for (const std::vector<TensorId>& alike : groups) {
      places_.push_back(places_of(alike.front()));
      for (const TensorId id : alike) of_tensor[static_cast<size_t>(id.value)] = &places_.back();
    }
    for (size_t i = 0; i < of_tensor.size(); ++i) {
      const int64_t size = tensor::size_of(collection_.tensors[i].dtype);
      for (const Place& place : *of_tensor[i]) {
        boxes_.push_back({.tensor = TensorId(static_cast<int64_t>(i)),
                          .place = &place,
                          .bytes = place.box.volume() * size,
                          .to = {}});
      }
    }
  }

  std::vector<Place> places_of(TensorId id) const {
    std::map<tensor::Box, std::vector<LogicalRank>> holders;
    for (const collection::RankPart& part : collection::rank_parts(collection_, id)) {
      for (const tensor::Piece& piece : part.buffer.pieces) {
        std::vector<LogicalRank>& ranks = holders[piece.box];
        ranks.insert(ranks.end(), part.ranks.begin(), part.ranks.end());
      }
    }
    std::vector<Place> places;
    for (const auto& [box, ranks] : holders) {
      const LogicalRank first = *std::min_element(ranks.begin(), ranks.end());
      Place place{.box = box, .from = device_of(first), .hosts = {}, .missing = 0};
      for (const LogicalRank rank : ranks) {
        if (!leaving_.contains(device_of(rank))) place.hosts.push_back(cluster_.host_of(device_of(rank)));
      }
      sort_unique(place.hosts);
      const size_t holding = policy_.other_host ? place.hosts.size() : ranks.size();
      const auto needed = static_cast<size_t>(policy_.copies) + 1;
      if (holding >= needed) continue;
      place.missing = needed - holding;
      places.push_back(std::move(place));
    }
    return places;
  }

  DeviceId device_of(LogicalRank rank) const { return collection_.device_of_rank[static_cast<size_t>(rank.value)]; }

  // Boxes with the least choice first. A host takes its even share before the next in the ring is asked, so that a job
  // whose hosts hold alike has the copies of each host on the hosts that follow it.
  void place() {
    int64_t bytes = 0;
    for (const WantedBox& wanted : boxes_) bytes += wanted.bytes * static_cast<int64_t>(wanted.place->missing);
    const auto hosts = std::max<int64_t>(1, std::count(in_pool_.begin(), in_pool_.end(), true));
    const int64_t share = (bytes + hosts - 1) / hosts;
    std::map<size_t, std::vector<WantedBox*>, std::greater<>> by_hosts;
    for (WantedBox& wanted : boxes_) by_hosts[wanted.place->hosts.size()].push_back(&wanted);
    for (const auto& [hosts_of_box, order] : by_hosts) {
      for (WantedBox* wanted : order) {
        for (size_t missing = wanted->place->missing; missing > 0; --missing) {
          const HostId host = next_host(*wanted, share);
          if (!host.valid()) break;  // fewer hosts are up than copies are wanted
          held_[static_cast<size_t>(host.value)] += wanted->bytes;
          wanted->to.push_back(host);
        }
      }
    }
  }

  // The first after home that has less than its share, else the one that has least. Invalid: none is left.
  HostId next_host(const WantedBox& wanted, int64_t share) {
    const HostId home = cluster_.host_of(wanted.place->from);
    if (!policy_.other_host && wanted.to.empty()) return home;
    HostId least;
    for (const HostId host : ring_after(home)) {
      const auto at = static_cast<size_t>(host.value);
      const bool has = std::binary_search(wanted.place->hosts.begin(), wanted.place->hosts.end(), host) ||
                       std::find(wanted.to.begin(), wanted.to.end(), host) != wanted.to.end();
      if (has || !in_pool_[at]) continue;
      if (held_[at] < share) return host;
      if (!least.valid() || held_[at] < held_[static_cast<size_t>(least.value)]) least = host;
    }
    return least;
  }

  // The other hosts of the job, then the rest of the cluster.
  const std::vector<HostId>& ring_after(HostId home) {
    const auto [entry, fresh] = rings_.try_emplace(home);
    std::vector<HostId>& ring = entry->second;
    if (!fresh) return ring;
    const auto after = std::upper_bound(of_job_.begin(), of_job_.end(), home);
    ring.assign(after, of_job_.end());
    ring.insert(ring.end(), of_job_.begin(), after);
    ring.insert(ring.end(), rest_.begin(), rest_.end());
    return ring;
  }

  const Collection& collection_;
  const cluster::Cluster& cluster_;
  const scenario::RedundancyPolicy& policy_;
  const std::set<DeviceId> leaving_;   // what they hold does not count
  std::vector<HostId> of_job_, rest_;  // ascending
  std::vector<int64_t> held_;          // bytes of copies, by host
  std::vector<bool> in_pool_;          // by host
  std::map<HostId, std::vector<HostId>> rings_;
  std::vector<std::vector<Place>> places_;  // by tensors alike; stays where it is
  std::vector<WantedBox> boxes_;
};

}  // namespace

Redundancy plan_redundancy(const Collection& collection, const cluster::Cluster& cluster,
                           const scenario::RedundancyPolicy& policy, const std::set<HostId>& down) {
  return RedundancyPlanner(collection, cluster, policy, down).run();
}

Redundancy plan_evacuation(const Collection& collection, const cluster::Cluster& cluster,
                           const std::set<DeviceId>& leaving, const std::set<HostId>& down) {
  return RedundancyPlanner(collection, cluster, {.copies = 0}, down, leaving).run();
}

Redundancy fill(const Redundancy& copies, const cluster::Cluster& cluster, std::map<HostId, int64_t> out_bytes,
                const std::map<HostId, int64_t>& in_bytes) {
  Redundancy filled;
  std::map<HostId, int64_t> left_in = in_bytes;
  std::map<std::pair<Location, Location>, int64_t> flows;
  for (size_t i = 0; i < copies.copies.size(); ++i) {
    collection::ExtraHolder part = copies.copies[i];
    const auto [from, bytes] = copies.origins[i];
    const int64_t end = part.box.rank > 0 ? part.box.hi[0] : 1, rows = part.box.rank > 0 ? part.box.extent(0) : 1;
    const int64_t row_bytes = bytes / rows;
    int64_t& out = out_bytes[cluster.host_of(from)];
    int64_t left = rows;
    for (auto& [host, in] : left_in) {
      const int64_t fit = std::min({left, out / row_bytes, in / row_bytes});
      if (fit == 0) continue;
      part.host = host;
      if (part.box.rank > 0) {
        part.box.lo[0] = end - left;
        part.box.hi[0] = end - left + fit;
      }
      filled.copies.push_back(part);
      filled.origins.emplace_back(from, fit * row_bytes);
      flows[{Location::device(from), Location::host_memory(host)}] += fit * row_bytes;
      out -= fit * row_bytes;
      in -= fit * row_bytes;
      left -= fit;
    }
  }
  for (const auto& [ends, total] : flows) filled.flows.push_back({ends.first, ends.second, total});
  return filled;
}

}  // namespace scalai::control
