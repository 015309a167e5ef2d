#include "ptc/plan/internal/placement_search.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "ptc/base/status.h"

namespace scalai::plan {
namespace {

using internal::Gain;

constexpr size_t kMostCounts = size_t{1} << 22;  // parts × hosts
constexpr int kMostPasses = 8;

struct Inside {
  std::vector<DeviceId> devices;  // of each rank
  Gain gain;
};

Inside best_inside(const RankedChange& change, const std::vector<int32_t>& ranks, const Site& site) {
  const auto gains = change.gains_of(ranks, site.devices);
  const std::vector<int> slot = internal::best_assignment(gains);
  Inside inside;
  for (size_t i = 0; i < ranks.size(); ++i) {
    inside.devices.push_back(site.devices[static_cast<size_t>(slot[i])]);
    inside.gain += gains[i][static_cast<size_t>(slot[i])];
  }
  return inside;
}

// Ranks one by one onto hosts with room. Bytes across hosts depend on nothing else, and what moves inside a host on its
// ranks alone, so that each set of ranks on a host is looked at once.
class AllWays {
 public:
  AllWays(const RankedChange& change, const std::vector<Site>& sites, const PlacementCost& least, bool spread)
      : change_(change),
        sites_(sites),
        least_(least),
        spread_(spread),
        runs_(single_ranks(change.ranks(), sites)),
        parts_(parts_of(change, runs_, sites)),
        traffic_(parts_, runs_.runs.size(), sites.size()),
        ranks_of_host_(sites.size()),
        host_of_rank_(static_cast<size_t>(change.ranks())) {}

  std::optional<std::vector<DeviceId>> run() {
    visit(0);
    SCALAI_CHECK(!best_ || !spread_ || change_.cost(*best_) == least_);
    return std::move(best_);
  }

 private:
  static Runs single_ranks(int32_t ranks, const std::vector<Site>& sites) {
    std::vector<int32_t> order(static_cast<size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    auto runs = equal_runs(order, sites, 1);
    SCALAI_CHECK(runs.has_value());
    return *std::move(runs);
  }

  void visit(size_t rank) {
    if (least_.in_one_domain == 0 && traffic_.plain_bytes() > least_.cross_host) return;
    if (rank == runs_.runs.size()) return judge();
    for (size_t h = 0; h < sites_.size(); ++h) {
      if (ranks_of_host_[h].size() == sites_[h].devices.size()) continue;
      ranks_of_host_[h].push_back(static_cast<int32_t>(rank));
      host_of_rank_[rank] = sites_[h].hosts.front();
      traffic_.add(rank, h);
      visit(rank + 1);
      traffic_.remove(rank, h);
      ranks_of_host_[h].pop_back();
    }
  }

  void judge() {
    if (least_.in_one_domain == 0 && traffic_.bytes() > least_.cross_host) return;
    Gain gain;
    for (size_t h = 0; h < sites_.size(); ++h) gain += inside(h).gain;
    const PlacementCost cost{.in_one_domain = spread_ ? change_.in_one_domain(host_of_rank_) : 0,
                             .cross_host = traffic_.bytes(),
                             .moved = change_.most_moved() - gain.first,
                             .same_device = -gain.second};
    if (cost >= least_) return;
    least_ = cost;
    best_.emplace(runs_.runs.size());
    for (size_t h = 0; h < sites_.size(); ++h) {
      const Inside& there = inside(h);
      for (size_t i = 0; i < there.devices.size(); ++i)
        (*best_)[static_cast<size_t>(ranks_of_host_[h][i])] = there.devices[i];
    }
  }

  const Inside& inside(size_t host) {
    std::vector<int32_t> key = ranks_of_host_[host];
    key.push_back(static_cast<int32_t>(host));
    const auto [entry, fresh] = inside_.try_emplace(std::move(key));
    if (fresh) entry->second = std::make_unique<Inside>(best_inside(change_, ranks_of_host_[host], sites_[host]));
    return *entry->second;
  }

  const RankedChange& change_;
  const std::vector<Site>& sites_;
  PlacementCost least_;
  const bool spread_;
  const Runs runs_;
  const std::vector<RunPart> parts_;
  HostTraffic traffic_;
  std::vector<std::vector<int32_t>> ranks_of_host_;
  std::vector<HostId> host_of_rank_;
  absl::flat_hash_map<std::vector<int32_t>, std::unique_ptr<Inside>> inside_;
  std::optional<std::vector<DeviceId>> best_;
};

class Improver {
 public:
  Improver(const Runs& runs, const std::vector<RunPart>& parts, const std::vector<Site>& sites,
           std::vector<int32_t>& host_of_run)
      : runs_(runs), host_of_run_(host_of_run), traffic_(parts, runs.runs.size(), sites.size()) {
    for (const Site& site : sites) room_.push_back(site.devices.size());
    for (size_t r = 0; r < host_of_run.size(); ++r) {
      traffic_.add(r, host_of(r));
      room_[host_of(r)] -= runs.runs[r].size();
    }
  }

  void run() {
    bool better = true;
    for (int pass = 0; pass < kMostPasses && better; ++pass) {
      better = false;
      for (size_t r = 0; r < host_of_run_.size(); ++r) {
        for (size_t h = 0; h < room_.size(); ++h) better |= moves(r, h);
        for (size_t other = r + 1; other < host_of_run_.size(); ++other) better |= swaps(r, other);
      }
    }
  }

 private:
  size_t host_of(size_t run) const { return static_cast<size_t>(host_of_run_[run]); }

  void put(size_t run, size_t host) {
    traffic_.remove(run, host_of(run));
    traffic_.add(run, host);
    host_of_run_[run] = static_cast<int32_t>(host);
  }

  bool moves(size_t run, size_t host) {
    const size_t before = host_of(run), length = runs_.runs[run].size();
    if (host == before || room_[host] < length) return false;
    const int64_t bytes = traffic_.bytes();
    put(run, host);
    if (traffic_.bytes() >= bytes) {
      put(run, before);
      return false;
    }
    room_[host] -= length;
    room_[before] += length;
    return true;
  }

  bool swaps(size_t a, size_t b) {
    const size_t host_a = host_of(a), host_b = host_of(b);
    if (host_a == host_b || runs_.runs[a].size() != runs_.runs[b].size()) return false;
    const int64_t bytes = traffic_.bytes();
    put(a, host_b);
    put(b, host_a);
    if (traffic_.bytes() < bytes) return true;
    put(a, host_a);
    put(b, host_b);
    return false;
  }

  const Runs& runs_;
  std::vector<int32_t>& host_of_run_;
  HostTraffic traffic_;
  std::vector<size_t> room_;  // devices left
};

}  // namespace

HostTraffic::HostTraffic(const std::vector<RunPart>& parts, size_t runs, size_t hosts)
    : parts_(parts), hosts_(hosts), uses_(runs), counts_(parts.size() * hosts) {
  for (size_t p = 0; p < parts.size(); ++p) {
    for (const int32_t run : parts[p].wanting) {
      const bool derives = std::binary_search(parts[p].deriving.begin(), parts[p].deriving.end(), run);
      uses_[static_cast<size_t>(run)].push_back({p, derives});
    }
    for (const int32_t host : parts[p].holding) counts_[p * hosts + static_cast<size_t>(host)].holds = true;
  }
}

void HostTraffic::change(size_t run, size_t host, int by) {
  for (const Use& use : uses_[run]) {
    Count& count = counts_[use.part * hosts_ + host];
    if (count.holds) continue;
    const auto pays = [&] { return count.fetching > 0 && count.deriving == 0 ? parts_[use.part].bytes : 0; };
    int64_t& sum = parts_[use.part].deriving.empty() ? plain_ : derivable_;
    sum -= pays();
    int16_t& users = use.derives ? count.deriving : count.fetching;
    users = static_cast<int16_t>(users + by);
    sum += pays();
  }
}

void improve(const RankedChange& change, const Runs& runs, const std::vector<Site>& sites,
             std::vector<int32_t>& host_of_run) {
  if (runs.runs.size() > kMostSwappedRuns) return;
  const std::vector<RunPart> parts = parts_of(change, runs, sites);
  if (parts.size() * sites.size() > kMostCounts) return;
  Improver(runs, parts, sites, host_of_run).run();
}

int64_t ways_to_place(int32_t ranks, const std::vector<Site>& sites, int64_t limit) {
  // ways[k]: of k ranks, onto the hosts so far.
  std::vector<int64_t> ways(static_cast<size_t>(ranks) + 1, 0);
  ways[0] = 1;
  for (const Site& site : sites) {
    std::vector<int64_t> next(ways.size(), 0);
    for (size_t all = 0; all < ways.size(); ++all) {
      double choices = 1;  // of `here` out of `all`
      for (size_t here = 0; here <= std::min(all, site.devices.size()); ++here) {
        const double more = choices * static_cast<double>(ways[all - here]);
        next[all] = static_cast<double>(next[all]) + more > static_cast<double>(limit) ? limit + 1
                                                                                       : next[all] + std::llround(more);
        choices = choices * static_cast<double>(all - here) / static_cast<double>(here + 1);
      }
    }
    ways = std::move(next);
  }
  return ways.back();
}

std::vector<DeviceId> settle(const RankedChange& change, const std::vector<Site>& sites,
                             const std::vector<int32_t>& host_of_rank) {
  std::vector<std::vector<int32_t>> ranks(sites.size());
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank)
    ranks[static_cast<size_t>(host_of_rank[rank])].push_back(static_cast<int32_t>(rank));
  std::vector<DeviceId> devices(host_of_rank.size());
  for (size_t h = 0; h < sites.size(); ++h) {
    const Inside there = best_inside(change, ranks[h], sites[h]);
    for (size_t i = 0; i < ranks[h].size(); ++i) devices[static_cast<size_t>(ranks[h][i])] = there.devices[i];
  }
  return devices;
}

std::optional<std::vector<DeviceId>> best_of_all_ways(const RankedChange& change, const std::vector<Site>& sites,
                                                      const PlacementCost& least, bool spread) {
  return AllWays(change, sites, least, spread).run();
}

}  // namespace scalai::plan
