#include "ptc/plan/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/plan/internal/placement_change.h"
#include "ptc/plan/internal/placement_runs.h"
#include "ptc/plan/internal/placement_search.h"

namespace scalai::plan {
namespace {

using Ranks = std::vector<int32_t>;

constexpr size_t kMostRuns = 4096;  // shorter runs are only tried in jobs that have no more of them

bool comparable(const PlannerInput& input) {
  const bool same = std::equal(input.from.tensors.begin(), input.from.tensors.end(), input.to.tensors.begin(),
                               input.to.tensors.end(), [](const auto& a, const auto& b) { return a.shape == b.shape; });
  const auto inside = [&](DeviceId device) { return device.value >= 0 && device.value < input.cluster.device_count(); };
  return same && std::all_of(input.from.device_of_rank.begin(), input.from.device_of_rank.end(), inside) &&
         std::all_of(input.to.device_of_rank.begin(), input.to.device_of_rank.end(), inside);
}

// Hosts, or NVLink domains.
std::vector<Site> sites_of(const std::vector<DeviceId>& candidates, const cluster::Cluster& cluster, bool domains) {
  std::vector<Site> sites;
  std::map<int64_t, size_t> known;
  for (const DeviceId device : candidates) {
    const HostId host = cluster.host_of(device);
    const auto [entry, fresh] = known.try_emplace(domains ? cluster.domain_of(host) : host.value, sites.size());
    if (fresh) sites.emplace_back();
    Site& site = sites[entry->second];
    if (site.hosts.empty() || site.hosts.back() != host) site.hosts.push_back(host);
    site.devices.push_back(device);
  }
  return sites;
}

void most_devices_first(std::vector<Site>& sites) {
  std::stable_sort(sites.begin(), sites.end(),
                   [](const Site& a, const Site& b) { return a.devices.size() > b.devices.size(); });
}

class Placer {
 public:
  Placer(const PlannerInput& input, const PlacementOptions& options, const std::vector<DeviceId>& candidates)
      : input_(input),
        options_(options),
        change_(input, options.spread),
        by_domain_(in_domains(candidates)),
        hosts_(sites_of(candidates, input.cluster, by_domain_)),
        order_(static_cast<size_t>(change_.ranks())) {
    std::iota(order_.begin(), order_.end(), 0);
    try_devices(input.to.device_of_rank);
  }

  Placement run() {
    if (options_.rule != PlacementRule::kIdentity && !order_.empty()) {
      try_by_host();
      if (spreads()) try_by_replica();
      if (options_.rule == PlacementRule::kFree) try_freely();
    }
    Placement result{.device_of_rank = best_->device_of_rank, .spread = {}};
    if (!spreads()) return result;
    const PlacementCost &cost = best_->cost, &without = cheapest_->cost;
    result.spread = {.cross_host = cost.cross_host - without.cross_host,
                     .moved = cost.moved - without.moved,
                     .bytes_in_one_domain = cost.in_one_domain,
                     .bytes_in_one_domain_without = without.in_one_domain};
    return result;
  }

 private:
  struct Priced {
    std::vector<DeviceId> device_of_rank;
    PlacementCost cost;
  };

  // Runs fill NVLink domains, unless replicas are to be kept on different hosts and hosts hold tensor-parallel groups.
  bool in_domains(const std::vector<DeviceId>& candidates) const {
    if (options_.spread != SpreadRule::kHost) return true;
    return std::any_of(candidates.begin(), candidates.end(), [&](DeviceId device) {
      const HostId host = input_.cluster.host_of(device);
      return input_.cluster.hosts[static_cast<size_t>(host.value)].gpus < change_.tensor_group();
    });
  }
  bool spreads() const { return options_.spread != SpreadRule::kNone && change_.replicas() > 1; }
  static PlacementCost bytes_of(PlacementCost cost) {
    cost.in_one_domain = 0;
    return cost;
  }

  void try_devices(std::vector<DeviceId> device_of_rank) {
    const PlacementCost cost = change_.cost(device_of_rank);
    if (!cheapest_ || bytes_of(cost) < bytes_of(cheapest_->cost)) cheapest_ = {device_of_rank, cost};
    if (!best_ || cost < best_->cost) best_ = {std::move(device_of_rank), cost};
  }

  void try_hosts(const Runs& runs, const Ranks& host_of_run) {
    Ranks host_of_rank(order_.size());
    for (size_t r = 0; r < runs.runs.size(); ++r) {
      for (const int32_t rank : runs.runs[r]) host_of_rank[static_cast<size_t>(rank)] = host_of_run[r];
    }
    try_devices(settle(change_, hosts_, host_of_rank));
  }

  void try_runs(const std::optional<Runs>& runs) {
    if (!runs) return;
    auto host_of_run = assign_runs(change_, *runs, hosts_);
    if (!host_of_run) return;
    try_hosts(*runs, *host_of_run);
    const bool shared = std::any_of(runs->places.begin(), runs->places.end(),
                                    [](const Runs::Place& place) { return place.capacity > 1; });
    if (!shared) return;
    improve(change_, *runs, hosts_, *host_of_run);
    try_hosts(*runs, *host_of_run);
  }

  void try_by_host() {
    const Ranks lengths = run_lengths(hosts_, change_.ranks(), change_.tensor_group());
    const bool alike = std::all_of(hosts_.begin(), hosts_.end(), [&](const Site& host) {
      return host.devices.size() == static_cast<size_t>(lengths.front());
    });
    if (!alike) try_runs(filling_runs(order_, hosts_, change_.ranks(), change_.tensor_group()));
    for (const int32_t length : lengths) {
      if (length == lengths.front() || order_.size() / static_cast<size_t>(length) <= kMostRuns)
        try_runs(equal_runs(order_, hosts_, length));
    }
  }

  // A domain that takes no more than all but one of the replicas, or than half of them, never has all of a box.
  void try_by_replica() {
    const Ranks order = by_replica(change_);
    const int32_t replica = change_.ranks() / change_.replicas();
    const std::vector<Site> domains = domains_of_hosts();
    for (const int32_t most : {(change_.replicas() - 1) * replica, (change_.replicas() + 1) / 2 * replica}) {
      const std::optional<Runs> runs = filling_runs(order, domains, most, change_.tensor_group());
      if (!runs) continue;
      if (const auto domain_of_run = assign_runs(change_, *runs, domains))
        try_runs(runs_inside(*runs, domains, *domain_of_run));
    }
  }

  std::vector<Site> domains_of_hosts() const {
    std::map<int, Site> domains;
    for (const Site& host : hosts_) {
      Site& domain = domains[change_.domain_of(host.hosts.front())];
      domain.hosts.push_back(host.hosts.front());
      domain.devices.insert(domain.devices.end(), host.devices.begin(), host.devices.end());
    }
    std::vector<Site> list;
    for (auto& [id, domain] : domains) list.push_back(std::move(domain));
    most_devices_first(list);
    return list;
  }

  // The run of each domain fills the hosts of that domain.
  Runs runs_inside(const Runs& runs, const std::vector<Site>& domains, const Ranks& domain_of_run) const {
    Runs result;
    for (size_t h = 0; h < hosts_.size(); ++h)
      result.places.push_back({static_cast<int32_t>(h), static_cast<int32_t>(hosts_[h].devices.size()), 1});
    for (size_t r = 0; r < runs.runs.size(); ++r) {
      const Site& domain = domains[static_cast<size_t>(domain_of_run[r])];
      std::vector<Site> hosts = sites_of(domain.devices, input_.cluster, by_domain_);
      most_devices_first(hosts);
      const auto parts = filling_runs(runs.runs[r], hosts, change_.ranks(), change_.tensor_group());
      SCALAI_CHECK(parts.has_value());
      for (const Ranks& part : parts->runs) {
        result.runs.push_back(part);
        result.domain_of_run.push_back(change_.domain_of(domain.hosts.front()));
      }
    }
    return result;
  }

  void try_freely() {
    if (change_.ranks() <= kMostFreeRanks) {
      const auto single = equal_runs(order_, hosts_, 1);
      SCALAI_CHECK(single.has_value());
      if (change_.tensor_group() > 1) try_runs(single);
      Ranks host_of_rank = hosts_of(best_->device_of_rank);
      improve(change_, *single, hosts_, host_of_rank);
      try_hosts(*single, host_of_rank);
    }
    if (ways_to_place(change_.ranks(), hosts_, kMostWays) > kMostWays) return;
    if (spreads()) {
      if (auto devices = best_of_all_ways(change_, hosts_, best_->cost, /*spread=*/true))
        try_devices(*std::move(devices));
    }
    if (auto devices = best_of_all_ways(change_, hosts_, bytes_of(cheapest_->cost), /*spread=*/false))
      try_devices(*std::move(devices));
  }

  Ranks hosts_of(const std::vector<DeviceId>& devices) const {
    std::map<HostId, int32_t> known;
    for (size_t h = 0; h < hosts_.size(); ++h) {
      for (const HostId host : hosts_[h].hosts) known[host] = static_cast<int32_t>(h);
    }
    Ranks hosts;
    for (const DeviceId device : devices) hosts.push_back(known.at(input_.cluster.host_of(device)));
    return hosts;
  }

  const PlannerInput& input_;
  const PlacementOptions& options_;
  const RankedChange change_;
  const bool by_domain_;
  const std::vector<Site> hosts_;  // or domains
  Ranks order_;
  std::optional<Priced> best_;      // by the spread rule, then bytes
  std::optional<Priced> cheapest_;  // by bytes alone
};

}  // namespace

Placement best_placement(const PlannerInput& input, const PlacementOptions& options,
                         const std::vector<DeviceId>& candidates) {
  if (!comparable(input)) return {.device_of_rank = input.to.device_of_rank, .spread = {}};
  return Placer(input, options, candidates).run();
}

std::vector<DeviceId> place(const PlannerInput& input, const PlacementOptions& options,
                            const std::vector<DeviceId>& candidates) {
  return best_placement(input, options, candidates).device_of_rank;
}

}  // namespace scalai::plan
