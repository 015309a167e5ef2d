#include "ptc/control/internal/redundancy.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ptc/plan/bounds.h"

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
                    const scenario::RedundancyPolicy& policy, const std::set<HostId>& down)
      : collection_(collection),
        cluster_(cluster),
        policy_(policy),
        held_(cluster.hosts.size(), 0),
        in_pool_(cluster.hosts.size(), false) {
    find_hosts(down);
    find_boxes();
  }

  Redundancy run() {
    place();
    Redundancy found;
    std::map<std::pair<Location, Location>, int64_t> flows;
    for (const WantedBox& wanted : boxes_) {
      for (const HostId host : wanted.to) {
        found.copies.push_back({wanted.tensor, wanted.box, host});
        flows[{Location::device(wanted.from), Location::host_memory(host)}] += wanted.bytes;
      }
    }
    for (const auto& [ends, bytes] : flows) found.flows.push_back({ends.first, ends.second, bytes});
    found.survives_host_losses = plan::survives_host_losses(collection_, cluster_, found.copies);
    return found;
  }

 private:
  // A box in too few places.
  struct WantedBox {
    TensorId tensor;
    tensor::Box box;
    int64_t bytes = 0;
    DeviceId from;
    std::vector<HostId> hosts;  // where it lies, ascending
    size_t missing = 0;         // copies
    std::vector<HostId> to;
  };

  // The hosts that may take copies: those of the job if they suffice, else all that are up.
  void find_hosts(const std::set<HostId>& down) {
    for (const DeviceId device : collection_.device_of_rank) of_job_.push_back(cluster_.host_of(device));
    sort_unique(of_job_);
    const bool suffice = of_job_.size() > static_cast<size_t>(policy_.copies);
    for (size_t i = 0; i < cluster_.hosts.size(); ++i) {
      const HostId host(static_cast<int64_t>(i));
      const bool own = std::binary_search(of_job_.begin(), of_job_.end(), host);
      if (!own) rest_.push_back(host);
      in_pool_[i] = (own || !suffice) && !down.contains(host);
    }
  }

  void find_boxes() {
    for (size_t i = 0; i < collection_.tensors.size(); ++i) {
      const TensorId id(static_cast<int64_t>(i));
      std::map<tensor::Box, std::vector<DeviceId>> holders;
      for (int rank = 0; rank < collection_.ranks(); ++rank) {
        for (const tensor::Piece& piece : collection_.pieces(id, LogicalRank(rank)).pieces)
          holders[piece.box].push_back(collection_.device_of_rank[static_cast<size_t>(rank)]);
      }
      for (const auto& [box, devices] : holders) add(id, box, devices);
    }
  }

  void add(TensorId id, const tensor::Box& box, const std::vector<DeviceId>& devices) {
    WantedBox wanted{.tensor = id,
                     .box = box,
                     .bytes = box.volume() * tensor::size_of(collection_.tensors[static_cast<size_t>(id.value)].dtype),
                     .from = devices.front(),
                     .hosts = {},
                     .missing = 0,
                     .to = {}};
    for (const DeviceId device : devices) wanted.hosts.push_back(cluster_.host_of(device));
    sort_unique(wanted.hosts);
    const size_t places = policy_.other_host ? wanted.hosts.size() : devices.size();
    const auto needed = static_cast<size_t>(policy_.copies) + 1;
    if (places >= needed) return;
    wanted.missing = needed - places;
    boxes_.push_back(std::move(wanted));
  }

  // Boxes with the least choice first. A host takes its even share before the next in the ring is asked, so that a job
  // whose hosts hold alike has the copies of each host on the hosts that follow it.
  void place() {
    int64_t bytes = 0;
    for (const WantedBox& wanted : boxes_) bytes += wanted.bytes * static_cast<int64_t>(wanted.missing);
    const auto hosts = std::max<int64_t>(1, std::count(in_pool_.begin(), in_pool_.end(), true));
    const int64_t share = (bytes + hosts - 1) / hosts;
    std::vector<WantedBox*> order;
    for (WantedBox& wanted : boxes_) order.push_back(&wanted);
    std::stable_sort(order.begin(), order.end(),
                     [](const WantedBox* a, const WantedBox* b) { return a->hosts.size() > b->hosts.size(); });
    for (WantedBox* wanted : order) {
      for (; wanted->missing > 0; --wanted->missing) {
        const HostId host = next_host(*wanted, share);
        if (!host.valid()) break;  // fewer hosts are up than copies are wanted
        held_[static_cast<size_t>(host.value)] += wanted->bytes;
        wanted->to.push_back(host);
      }
    }
  }

  // The first after home that has less than its share, else the one that has least. Invalid: none is left.
  HostId next_host(const WantedBox& wanted, int64_t share) {
    const HostId home = cluster_.host_of(wanted.from);
    if (!policy_.other_host && wanted.to.empty()) return home;
    HostId least;
    for (const HostId host : ring_after(home)) {
      const auto at = static_cast<size_t>(host.value);
      const bool has = std::binary_search(wanted.hosts.begin(), wanted.hosts.end(), host) ||
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
  std::vector<HostId> of_job_, rest_;  // ascending
  std::vector<int64_t> held_;          // bytes of copies, by host
  std::vector<bool> in_pool_;          // by host
  std::map<HostId, std::vector<HostId>> rings_;
  std::vector<WantedBox> boxes_;
};

}  // namespace

Redundancy plan_redundancy(const Collection& collection, const cluster::Cluster& cluster,
                           const scenario::RedundancyPolicy& policy, const std::set<HostId>& down) {
  return RedundancyPlanner(collection, cluster, policy, down).run();
}

}  // namespace scalai::control
