#include "ptc/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

void add_uplink(std::vector<NamedLink>& links, const std::string& name, double sum, double oversubscription) {
  add_pair(links, name, sum / oversubscription, sum / oversubscription);
}

// The NICs of a leaf together; 0 when one of them is unlimited.
double sum_of_nics(const Cluster& cluster, size_t first_host, size_t last_host) {
  double sum = 0;
  for (size_t h = first_host; h < last_host; ++h) {
    if (cluster.hosts[h].nic_bytes_per_s == 0) return 0;
    sum += cluster.hosts[h].nics * cluster.hosts[h].nic_bytes_per_s;
  }
  return sum;
}

void add_leaves(std::vector<NamedLink>& links, const Cluster& cluster) {
  const size_t per_leaf = static_cast<size_t>(cluster.leaf_hosts);
  SCALAI_CHECK(per_leaf >= 1);
  for (size_t first = 0, leaf = 0; first < cluster.hosts.size(); first += per_leaf, ++leaf) {
    const double sum = sum_of_nics(cluster, first, std::min(first + per_leaf, cluster.hosts.size()));
    add_uplink(links, fmt::format("leaf{}", leaf), sum, cluster.oversubscription);
  }
}

void add_rails(std::vector<NamedLink>& links, const Cluster& cluster) {
  int rails = 0;
  for (const Host& host : cluster.hosts) rails = std::max(rails, host.nics);
  for (int rail = 0; rail < rails; ++rail) {
    double sum = 0;
    bool unlimited = false;
    for (const Host& host : cluster.hosts) {
      if (host.nics <= rail) continue;
      sum += host.nic_bytes_per_s;
      unlimited = unlimited || host.nic_bytes_per_s == 0;
    }
    add_uplink(links, fmt::format("rail{}", rail), unlimited ? 0 : sum, cluster.oversubscription);
  }
}

// Calls `add(host index, local index, host)` for every GPU (or network card) in order.
void for_each(const Cluster& cluster, int Host::*count, const std::function<void(size_t, int, const Host&)>& add) {
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    for (int i = 0; i < cluster.hosts[h].*count; ++i) add(h, i, cluster.hosts[h]);
  }
}

int hosts_of_each_rack(const Cluster& cluster) {
  return cluster.fabric == FabricKind::kLeafSpine ? cluster.leaf_hosts : cluster.rack_hosts;
}

// The leaf or rail of a NIC; a star has one switch.
std::string switch_of(const Cluster& cluster, size_t host, int nic) {
  if (cluster.fabric == FabricKind::kLeafSpine)
    return fmt::format("leaf{}", cluster.rack_of(HostId(static_cast<int64_t>(host))));
  return cluster.fabric == FabricKind::kRail ? fmt::format("rail{}", nic) : "fabric";
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
  if (cluster.fabric == FabricKind::kLeafSpine) add_leaves(links, cluster);
  if (cluster.fabric == FabricKind::kRail) add_rails(links, cluster);
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

std::vector<NamedSwitch> switches_of(const Cluster& cluster) {
  if (cluster.hosts.size() < 2) return {};
  std::set<std::string> known;
  for (const NamedLink& link : links_of(cluster)) known.insert(link.name);
  std::vector<NamedSwitch> switches;
  std::map<std::string, size_t> number;
  const auto links_at = [&](const std::string& name) -> std::vector<std::string>& {
    const auto [entry, fresh] = number.emplace(name, switches.size());
    if (fresh) switches.push_back({name, {}});
    return switches[entry->second].links;
  };
  const auto add = [&](const std::string& name, const std::string& link) {
    std::vector<std::string>& links = links_at(name);
    if (known.contains(link)) links.push_back(link);
  };
  for_each(cluster, &Host::nics, [&](size_t h, int nic, const Host&) {
    for (const char* end : {"up", "down"}) add(switch_of(cluster, h, nic), fmt::format("h{}.nic{}.{}", h, nic, end));
  });
  std::sort(switches.begin(), switches.end(), [](const NamedSwitch& a, const NamedSwitch& b) {
    return std::pair(a.name.size(), a.name) < std::pair(b.name.size(), b.name);  // leaf2 before leaf10
  });
  if (cluster.fabric == FabricKind::kStar) {
    if (known.contains("fabric")) switches.front().links.push_back("fabric");
    return switches;
  }
  NamedSwitch spine{"spine", {}};
  for (NamedSwitch& one : switches) {
    for (const char* end : {".up", ".down"}) {
      if (!known.contains(one.name + end)) continue;
      one.links.push_back(one.name + end);
      spine.links.push_back(one.name + end);
    }
  }
  switches.push_back(std::move(spine));
  return switches;
}

}  // namespace scalai::cluster
