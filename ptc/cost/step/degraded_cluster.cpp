#include "ptc/cost/step/degraded_cluster.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <vector>

namespace scalai::step {
namespace {

class Degrading {
 public:
  Degrading(const cluster::Cluster& cluster, std::span<const DeviceId> devices) : cluster_(cluster) {
    for (const DeviceId device : devices) {
      const HostId host = cluster.host_of(device);
      used_[host.value].insert(cluster.local_index(device));
      ++in_domain_[cluster.domain_of(host)];
    }
    for (const cluster::Tier& tier : cluster::tiers_of(cluster)) tiers_.push_back(climbed(tier));
  }

  // False: the job needs it, and it is down.
  bool apply(const std::string& name, double share) {
    int number = 0, part = 0;
    char kind[16] = "";
    if (name == "fabric") {
      if (several()) return scale(cluster_.backbone_bytes_per_s, share);
    } else if (std::sscanf(name.c_str(), "h%d.nic%d.%15s", &number, &part, kind) == 3) {
      if (several() && uses_nic(number, part)) nic_[number] = std::min(worst(nic_, number), share);
      return worst(nic_, number) > 0;
    } else if (std::sscanf(name.c_str(), "h%d.g%d.%15s", &number, &part, kind) == 3) {
      const auto here = used_.find(number);
      if (here == used_.end() || !here->second.contains(part)) return true;
      std::map<int, double>& shares = kind[0] == 'p' ? pcie_ : gpu_link_;
      const bool needed = kind[0] == 'p' ? several() : in_domain_[cluster_.domain_of(HostId(number))] > 1;
      if (needed) shares[number] = std::min(worst(shares, number), share);
      return worst(shares, number) > 0;
    } else {
      for (Climbed& tier : tiers_) {
        if (!tier.uses(name)) continue;
        tier.share = std::min(tier.share, share);
        return tier.share > 0;
      }
    }
    return true;
  }

  cluster::Cluster result() && {
    for (const auto& [h, share] : gpu_link_) (void)scale(host(h).gpu_link_bytes_per_s, share);
    for (const auto& [h, share] : nic_) (void)scale(host(h).nic_bytes_per_s, share);
    for (const auto& [h, share] : pcie_) (void)scale(host(h).pcie_bytes_per_s, share);
    const std::vector<cluster::Tier> tiers = cluster::tiers_of(cluster_);
    for (size_t t = 0; t < tiers_.size(); ++t) {
      const double factor = tiers_[t].kept_of_nics(cluster::nics_below(cluster_, tiers[t])) / tiers_[t].share;
      (tiers_[t].grouped ? cluster_.group_oversubscription : cluster_.oversubscription) *= factor;
    }
    return std::move(cluster_);
  }

 private:
  // A tier whose uplinks the job needs: those of several switches.
  struct Climbed {
    std::string name;
    bool grouped = false;  // its rates are the group's
    std::set<int> switches;
    double share = 1;
    std::vector<double> below;  // rates of the NICs below each of its switches
    // An uplink's rate is that of the NICs below it / oversubscription, and slow NICs leave it as it is.
    double kept_of_nics(const std::vector<double>& left) const {
      double kept = switches.empty() ? 1 : 0;
      for (const int at : switches) {
        const auto i = static_cast<size_t>(at);
        kept = std::max(kept, below[i] > 0 ? left[i] / below[i] : 1);
      }
      return kept;
    }
    bool uses(const std::string& link) const {
      int number = 0;
      if (switches.empty() || std::sscanf(link.c_str(), (name + "%d.").c_str(), &number) != 1) return false;
      return switches.contains(number);
    }
  };

  // On rails a GPU's traffic stays on its own rail; between blocks of hosts it climbs.
  Climbed climbed(const cluster::Tier& tier) const {
    Climbed found{.name = tier.name,
                  .grouped = tier.name == "pod" || tier.name == "group",
                  .switches = {},
                  .below = cluster::nics_below(cluster_, tier)};
    std::set<int> blocks;
    for (const auto& [host, locals] : used_) {
      blocks.insert(tier.switch_of(HostId(host), 0));
      const cluster::Host& one = cluster_.hosts[static_cast<size_t>(host)];
      for (const int local : locals) found.switches.insert(tier.switch_of(HostId(host), local * one.nics / one.gpus));
    }
    if (blocks.size() < 2) found.switches.clear();
    return found;
  }

  // GPUs that no GPU link joins.
  bool several() const { return in_domain_.size() > 1; }
  static bool scale(double& rate, double share) {
    rate *= share;
    return share > 0;
  }
  static double worst(const std::map<int, double>& shares, int host) {
    const auto known = shares.find(host);
    return known == shares.end() ? 1 : known->second;
  }
  // GPUs are dealt out to the NICs in order, as change::Platform does it.
  bool uses_nic(int h, int nic) const {
    const auto here = used_.find(h);
    if (here == used_.end()) return false;
    const cluster::Host& one = cluster_.hosts[static_cast<size_t>(h)];
    return std::any_of(here->second.begin(), here->second.end(),
                       [&](int local) { return local * one.nics / one.gpus == nic; });
  }
  cluster::Host& host(int index) { return cluster_.hosts[static_cast<size_t>(index)]; }

  cluster::Cluster cluster_;
  std::map<int, std::set<int>> used_;  // by host: the GPUs there
  std::map<int64_t, int> in_domain_;   // GPUs there
  std::vector<Climbed> tiers_;
  std::map<int, double> gpu_link_, nic_, pcie_;  // by host: the worst share
};

}  // namespace

std::optional<cluster::Cluster> degraded_cluster(const cluster::Cluster& cluster, std::span<const DeviceId> devices,
                                                 const std::map<std::string, double>& links) {
  Degrading degrading(cluster, devices);
  for (const auto& [name, share] : links) {
    if (!degrading.apply(name, share)) return std::nullopt;
  }
  return std::move(degrading).result();
}

}  // namespace scalai::step
