#include "ptc/cluster/islands.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace scalai::cluster {
namespace {

// Places of the network by name, joined as far as links are up (union-find).
class Joined {
 public:
  void join(const std::string& a, const std::string& b) {
    const size_t first = root(a), second = root(b);
    above_[second] = first;
  }

  size_t root(const std::string& name) {
    const auto [entry, fresh] = number_.emplace(name, above_.size());
    if (fresh) above_.push_back(above_.size());
    size_t at = entry->second;
    while (above_[at] != at) at = above_[at] = above_[above_[at]];
    return at;
  }

 private:
  std::map<std::string, size_t> number_;
  std::vector<size_t> above_;
};

std::string name_of(const Cluster& cluster, size_t host) {
  return fmt::format("domain {}", cluster.domain_of(HostId(static_cast<int64_t>(host))));
}

// By the NIC of this number, of hosts with fewer of them by their last one.
Joined joined_by_nic(const Cluster& cluster, int nic, const std::set<std::string>& down) {
  const auto up = [&](const std::string& link) {
    return !down.contains(link + ".up") && !down.contains(link + ".down");
  };
  const std::vector<Tier> tiers = tiers_of(cluster);
  const bool through = cluster.fabric != FabricKind::kStar || !down.contains("fabric");
  Joined joined;
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    const int own = std::max(0, std::min(nic, cluster.hosts[h].nics - 1));
    std::string below = name_of(cluster, h), link = fmt::format("h{}.nic{}", h, own);
    for (const Tier& tier : tiers) {
      const std::string here = fmt::format("{}{}", tier.name, tier.switch_of(HostId(static_cast<int64_t>(h)), own));
      if (up(link)) joined.join(below, here);
      below = link = here;
    }
    if (up(link) && through) joined.join(below, "top");
  }
  if (!down.contains("storage.read") && !down.contains("storage.write")) joined.join("top", "storage");
  return joined;
}

}  // namespace

Islands islands_of(const Cluster& cluster, const std::set<std::string>& down) {
  int nics = 1;
  for (const Host& host : cluster.hosts) nics = std::max(nics, host.nics);
  std::vector<std::vector<size_t>> roots(cluster.hosts.size());
  std::vector<bool> stored(cluster.hosts.size(), true);
  for (int nic = 0; nic < nics; ++nic) {
    Joined joined = joined_by_nic(cluster, nic, down);
    for (size_t h = 0; h < cluster.hosts.size(); ++h) {
      roots[h].push_back(joined.root(name_of(cluster, h)));
      stored[h] = stored[h] && roots[h].back() == joined.root("storage");
    }
  }
  Islands islands;
  std::map<std::vector<size_t>, int> numbers;
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    const auto [entry, fresh] = numbers.emplace(roots[h], static_cast<int>(numbers.size()));
    if (fresh) islands.reach_storage.push_back(stored[h]);
    islands.of_host.push_back(entry->second);
  }
  return islands;
}

}  // namespace scalai::cluster
