#include "ptc/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "ptc/base/status.h"

namespace scalai::cluster {
namespace {

// Adds NAME.up and NAME.down (or the two other ends) unless the bandwidth is unlimited.
void add_pair(std::vector<NamedLink>& links, const std::string& name, double out, double in,
              std::array<std::string_view, 2> ends = {"up", "down"}) {
  if (out > 0) links.push_back({fmt::format("{}.{}", name, ends[0]), out});
  if (in > 0) links.push_back({fmt::format("{}.{}", name, ends[1]), in});
}

void add_uplinks(std::vector<NamedLink>& links, const Cluster& cluster, const Tier& tier) {
  const std::vector<double> sums = nics_below(cluster, tier);
  for (size_t at = 0; at < sums.size(); ++at) {
    const double rate = sums[at] / tier.oversubscription;
    add_pair(links, fmt::format("{}{}", tier.name, at), rate, rate);
  }
}

// Calls `add(host index, local index, host)` for every GPU (or network NIC) in order.
void for_each(const Cluster& cluster, int Host::*count, const std::function<void(size_t, int, const Host&)>& add) {
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    for (int i = 0; i < cluster.hosts[h].*count; ++i) add(h, i, cluster.hosts[h]);
  }
}

int hosts_of_each_rack(const Cluster& cluster) {
  const bool leaves = cluster.fabric == FabricKind::kLeafSpine || cluster.fabric == FabricKind::kFatTree;
  return leaves ? cluster.leaf_hosts : cluster.rack_hosts;
}

int most_nics(const Cluster& cluster) {
  int most = 0;
  for (const Host& host : cluster.hosts) most = std::max(most, host.nics);
  return most;
}

std::string_view top_of(FabricKind fabric) {
  switch (fabric) {
    case FabricKind::kStar: return "fabric";
    case FabricKind::kLeafSpine:
    case FabricKind::kRail: return "spine";
    case FabricKind::kFatTree: return "core";
    case FabricKind::kDragonfly: break;
  }
  return "";
}

// The links of switches, by their names; only those that exist are taken.
class SwitchLinks {
 public:
  explicit SwitchLinks(const Cluster& cluster) {
    for (const NamedLink& link : links_of(cluster)) known_.insert(link.name);
  }
  std::vector<std::string>& at(const std::string& name) {
    const auto [entry, fresh] = number_.emplace(name, switches_.size());
    if (fresh) switches_.push_back({name, {}});
    return switches_[entry->second].links;
  }
  void add(const std::string& name, const std::string& link) {
    std::vector<std::string>& links = at(name);
    if (known_.contains(link) && added_.emplace(name, link).second) links.push_back(link);
  }
  std::vector<NamedSwitch> take() && { return std::move(switches_); }

 private:
  std::set<std::string> known_;
  std::set<std::pair<std::string, std::string>> added_;  // switch, link
  std::map<std::string, size_t> number_;
  std::vector<NamedSwitch> switches_;
};

std::vector<std::string> names_of(const Tier& tier, const Cluster& cluster) {
  std::set<int> numbers;
  for_each(cluster, &Host::nics, [&](size_t h, int nic, const Host&) {
    numbers.insert(tier.switch_of(HostId(static_cast<int64_t>(h)), nic));
  });
  std::vector<std::string> names;
  for (const int number : numbers) names.push_back(fmt::format("{}{}", tier.name, number));
  return names;
}

}  // namespace

int Cluster::device_count() const { return hosts.empty() ? 0 : hosts.back().first_device + hosts.back().gpus; }

HostId Cluster::host_of(DeviceId device) const {
  SCALAI_CHECK(device.value >= 0 && device.value < device_count(),
               fmt::format("device {} of {}", device.value, device_count()));
  // Where all hosts before it are alike, no search is needed.
  const auto guess = static_cast<size_t>(device.value / std::max(1, hosts.front().gpus));
  if (guess < hosts.size() && hosts[guess].first_device <= device.value &&
      device.value < hosts[guess].first_device + hosts[guess].gpus)
    return HostId(static_cast<int64_t>(guess));
  const auto after = std::upper_bound(hosts.begin(), hosts.end(), device.value,
                                      [](int value, const Host& host) { return value < host.first_device; });
  return HostId(after - hosts.begin() - 1);
}

int Cluster::rack_of(HostId host) const {
  const int hosts_each = hosts_of_each_rack(*this);
  return hosts_each > 0 ? host.value / hosts_each : 0;
}

int Cluster::group_of(HostId host) const { return group_hosts > 0 ? host.value / group_hosts : 0; }

int64_t Cluster::domain_of(HostId host) const {
  const int domain = hosts[static_cast<size_t>(host.value)].nvlink_domain;
  return domain < 0 ? host.value : -1 - int64_t{domain};
}

std::vector<int> Cluster::block_sizes() const {
  std::set<int> sizes = {leaf_hosts, group_hosts, hosts_of_each_rack(*this)};
  sizes.erase(0);
  return {sizes.begin(), sizes.end()};
}

int Cluster::rack_count() const {
  const int hosts_each = hosts_of_each_rack(*this);
  return hosts_each > 0 ? (static_cast<int>(hosts.size()) + hosts_each - 1) / hosts_each : 0;
}

std::vector<HostId> Cluster::hosts_of_rack(int rack) const {
  std::vector<HostId> found;
  for (int host = 0; host < static_cast<int>(hosts.size()) && rack < rack_count(); ++host) {
    if (rack_of(HostId(host)) == rack) found.emplace_back(host);
  }
  return found;
}

int Cluster::local_index(DeviceId device) const {
  return device.value - hosts[static_cast<size_t>(host_of(device).value)].first_device;
}

std::vector<DeviceId> Cluster::devices_of(HostId host) const {
  SCALAI_CHECK(host.value >= 0 && static_cast<size_t>(host.value) < hosts.size(),
               fmt::format("host {} of {}", host.value, hosts.size()));
  const Host& chosen = hosts[static_cast<size_t>(host.value)];
  std::vector<DeviceId> devices;
  for (int i = 0; i < chosen.gpus; ++i) devices.emplace_back(chosen.first_device + i);
  return devices;
}

std::vector<std::pair<HostId, std::vector<DeviceId>>> devices_by_host(const std::vector<DeviceId>& devices,
                                                                      const Cluster& cluster) {
  std::vector<std::pair<HostId, std::vector<DeviceId>>> hosts;
  std::map<HostId, size_t> place;
  for (const DeviceId device : devices) {
    const HostId host = cluster.host_of(device);
    const auto [found, fresh] = place.emplace(host, hosts.size());
    if (fresh) hosts.push_back({host, {}});
    hosts[found->second].second.push_back(device);
  }
  return hosts;
}

std::vector<Host> joined_hosts(const std::vector<DeviceId>& devices, const Cluster& cluster) {
  std::vector<Host> joined;
  std::map<int64_t, size_t> place;
  for (const auto& [id, there] : devices_by_host(devices, cluster)) {
    Host host = cluster.hosts[static_cast<size_t>(id.value)];
    host.nvlink_hosts = 1;
    const auto [found, fresh] = place.emplace(cluster.domain_of(id), joined.size());
    if (fresh) {
      joined.push_back(std::move(host));
      continue;
    }
    Host& whole = joined[found->second];
    whole.gpus += host.gpus;
    whole.nics += host.nics;
    whole.price_per_hour += host.price_per_hour;
  }
  return joined;
}

std::vector<NamedLink> links_of(const Cluster& cluster) {
  std::vector<NamedLink> links;
  for_each(cluster, &Host::gpus, [&](size_t h, int g, const Host& host) {
    add_pair(links, fmt::format("h{}.g{}", h, g), host.gpu_link_bytes_per_s, host.gpu_link_bytes_per_s);
  });
  for_each(cluster, &Host::gpus, [&](size_t h, int g, const Host& host) {
    add_pair(links, fmt::format("h{}.g{}.pcie", h, g), host.pcie_bytes_per_s, host.pcie_bytes_per_s);
  });
  for_each(cluster, &Host::nics, [&](size_t h, int n, const Host& host) {
    add_pair(links, fmt::format("h{}.nic{}", h, n), host.nic_bytes_per_s, host.nic_bytes_per_s);
  });
  for (const Tier& tier : tiers_of(cluster)) add_uplinks(links, cluster, tier);
  if (cluster.fabric == FabricKind::kStar && cluster.backbone_bytes_per_s > 0) {
    links.push_back({"fabric", cluster.backbone_bytes_per_s});
  }
  add_pair(links, "storage", cluster.storage_read_bytes_per_s, cluster.storage_write_bytes_per_s, {"read", "write"});
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    add_pair(links, fmt::format("h{}.store", h), cluster.hosts[h].store_serve_bytes_per_s,
             cluster.hosts[h].store_ingest_bytes_per_s, {"serve", "ingest"});
  }
  const auto add = [&](const std::string& name, double bandwidth) {
    if (bandwidth > 0) links.push_back({name, bandwidth});
  };
  for (size_t h = 0; h < cluster.hosts.size(); ++h) add(fmt::format("h{}.copy", h), cluster.hosts[h].copy_bytes_per_s);
  add("machine.copy", cluster.machine_copy_bytes_per_s);
  return links;
}

double link_share(const GpuKind& gpu) {
  constexpr double kTypical = 0.78, kOfFp8Kinds = 0.822;  // A100; H100
  if (gpu.link_efficiency > 0) return gpu.link_efficiency;
  return gpu.peak_flops_fp8 > 0 ? kOfFp8Kinds : kTypical;
}

double network_share(const GpuKind& gpu) {
  constexpr double kTypical = 0.9;
  return gpu.network_efficiency > 0 ? gpu.network_efficiency : kTypical;
}

double memory_bytes_per_s(const Host& host) {
  constexpr double kProcessor = 204.8e9, kBesidePcie = 32e9, kGrowth = 1.5;
  const double pcie = host.pcie_bytes_per_s > 0 ? std::max(host.pcie_bytes_per_s, kBesidePcie / 2) : kBesidePcie;
  return kProcessor * std::clamp(host.gpus / 4.0, 1.0, 2.0) * std::pow(kGrowth, std::log2(pcie / kBesidePcie));
}

Rates reached(const Host& host) {
  const bool as_measured = host.gpu.name.empty() || host.copy_bytes_per_s > 0;
  return {.gpu_link_bytes_per_s = host.gpu_link_bytes_per_s * (as_measured ? 1 : link_share(host.gpu)),
          .pcie_bytes_per_s = host.pcie_bytes_per_s * (as_measured ? 1 : kPcieShare),
          .nic_bytes_per_s = host.nic_bytes_per_s * (as_measured ? 1 : network_share(host.gpu))};
}

Cluster reached(Cluster cluster) {
  for (Host& host : cluster.hosts) {
    const Rates rates = reached(host);
    host.gpu_link_bytes_per_s = rates.gpu_link_bytes_per_s;
    host.pcie_bytes_per_s = rates.pcie_bytes_per_s;
    host.nic_bytes_per_s = rates.nic_bytes_per_s;
  }
  return cluster;
}

std::vector<Tier> tiers_of(const Cluster& cluster) {
  const Tier leaf{.name = "leaf", .hosts = cluster.leaf_hosts, .oversubscription = cluster.oversubscription};
  const Tier group{.name = "group", .hosts = cluster.group_hosts, .oversubscription = cluster.group_oversubscription};
  std::vector<Tier> tiers;
  switch (cluster.fabric) {
    case FabricKind::kStar: break;
    case FabricKind::kLeafSpine: tiers = {leaf}; break;
    case FabricKind::kRail:
      tiers = {{.name = "rail",
                .hosts = cluster.group_hosts,
                .nics = most_nics(cluster),
                .oversubscription = cluster.oversubscription}};
      break;
    case FabricKind::kFatTree:
      tiers = {leaf, group};
      tiers.back().name = "pod";
      break;
    case FabricKind::kDragonfly:
      if (cluster.leaf_hosts > 0) {
        tiers.push_back(leaf);
        tiers.back().name = "router";
      }
      tiers.push_back(group);
      break;
  }
  const bool whole = std::all_of(tiers.begin(), tiers.end(), [](const Tier& t) { return t.hosts > 0 || t.nics > 0; });
  SCALAI_CHECK(whole || cluster.hosts.empty(), "a fabric whose switches have no hosts");
  return tiers;
}

std::vector<double> nics_below(const Cluster& cluster, const Tier& tier) {
  std::vector<double> sums;
  std::set<size_t> unlimited;
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    const Host& host = cluster.hosts[h];
    for (int nic = 0; nic < host.nics; ++nic) {
      const auto at = static_cast<size_t>(tier.switch_of(HostId(static_cast<int64_t>(h)), nic));
      if (sums.size() <= at) sums.resize(at + 1);
      sums[at] += host.nic_bytes_per_s;
      if (host.nic_bytes_per_s == 0) unlimited.insert(at);
    }
  }
  for (const size_t at : unlimited) sums[at] = 0;
  return sums;
}

bool is_wide(const Cluster& cluster) {
  const std::vector<Tier> tiers = tiers_of(cluster);
  if (cluster.fabric == FabricKind::kStar) return cluster.backbone_bytes_per_s == 0;
  return std::all_of(tiers.begin(), tiers.end(), [](const Tier& tier) { return tier.oversubscription <= 1; });
}

Host joined(Host host) {
  const int hosts = std::max(1, host.nvlink_hosts);
  host.gpus *= hosts;
  host.nics *= hosts;
  host.price_per_hour *= hosts;
  host.nvlink_hosts = 1;
  host.nvlink_domain = -1;
  return host;
}

std::vector<NamedSwitch> switches_of(const Cluster& cluster) {
  if (cluster.hosts.size() < 2) return {};
  SwitchLinks links(cluster);
  const std::vector<Tier> tiers = tiers_of(cluster);
  const std::string top(top_of(cluster.fabric));
  for (const Tier& tier : tiers) {
    for (const std::string& name : names_of(tier, cluster)) links.at(name);  // in the order of their numbers
  }
  for_each(cluster, &Host::nics, [&](size_t h, int nic, const Host&) {
    std::string below = fmt::format("h{}.nic{}", h, nic);
    for (size_t t = 0; t <= tiers.size(); ++t) {
      const bool last = t == tiers.size();
      const std::string here =
          last ? top : fmt::format("{}{}", tiers[t].name, tiers[t].switch_of(HostId(static_cast<int64_t>(h)), nic));
      if (here.empty()) return;
      for (const char* end : {".up", ".down"}) links.add(here, below + end);
      below = here;
    }
  });
  for (const Tier& tier : tiers) {
    for (const std::string& name : names_of(tier, cluster)) {
      for (const char* end : {".up", ".down"}) links.add(name, name + end);
    }
  }
  if (cluster.fabric == FabricKind::kStar) links.add(top, "fabric");
  return std::move(links).take();
}

}  // namespace scalai::cluster
