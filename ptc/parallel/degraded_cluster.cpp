#include "ptc/parallel/degraded_cluster.h"

#include <algorithm>
#include <cstdio>
#include <set>

namespace scalai::parallel {
namespace {

class Degrading {
 public:
  Degrading(const cluster::Cluster& cluster, std::span<const DeviceId> devices) : cluster_(cluster) {
    for (const DeviceId device : devices)
      used_[static_cast<int>(cluster.host_of(device).value)].insert(cluster.local_index(device));
    for (const auto& [host, locals] : used_) leaves_.insert(cluster.rack_of(HostId(host)));
  }

  // False: the job needs it, and it is down.
  bool apply(const std::string& name, double share) {
    int number = 0, part = 0;
    char kind[16] = "";
    if (name == "fabric") {
      if (used_.size() > 1) return scale(cluster_.backbone_bytes_per_s, share);
    } else if (std::sscanf(name.c_str(), "leaf%d.%15s", &number, kind) == 2) {
      if (leaves_.size() > 1 && leaves_.contains(number)) leaf_ = std::min(leaf_, share);
      return leaf_ > 0;
    } else if (std::sscanf(name.c_str(), "h%d.nic%d.%15s", &number, &part, kind) == 3) {
      if (used_.size() > 1 && uses_nic(number, part)) nic_[number] = std::min(worst(nic_, number), share);
      return worst(nic_, number) > 0;
    } else if (std::sscanf(name.c_str(), "h%d.g%d.%15s", &number, &part, kind) == 3) {
      const auto here = used_.find(number);
      if (here == used_.end() || !here->second.contains(part)) return true;
      std::map<int, double>& shares = kind[0] == 'p' ? pcie_ : gpu_link_;
      const bool needed = kind[0] == 'p' ? used_.size() > 1 : here->second.size() > 1;
      if (needed) shares[number] = std::min(worst(shares, number), share);
      return worst(shares, number) > 0;
    }
    return true;
  }

  cluster::Cluster result() && {
    cluster_.oversubscription /= leaf_;
    for (const auto& [h, share] : gpu_link_) (void)scale(host(h).gpu_link_bytes_per_s, share);
    for (const auto& [h, share] : nic_) (void)scale(host(h).nic_bytes_per_s, share);
    for (const auto& [h, share] : pcie_) {
      cluster::Host& one = host(h);
      const double most = one.pcie_bytes_per_s * share * one.gpus / std::max(1, one.nics);
      if (one.pcie_bytes_per_s > 0 && (one.nic_bytes_per_s == 0 || most < one.nic_bytes_per_s))
        one.nic_bytes_per_s = most;
    }
    return std::move(cluster_);
  }

 private:
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
  std::set<int> leaves_;
  std::map<int, double> gpu_link_, nic_, pcie_;  // by host: the worst share
  double leaf_ = 1;
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

}  // namespace scalai::parallel
