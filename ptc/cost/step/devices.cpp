#include "ptc/cost/step/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/cost/step/hardware.h"

namespace scalai::step {
namespace {

// Of an NVLink domain, where there is one.
struct HostDevices {
  const cluster::Host* host = nullptr;
  double share = 1;   // of nominal speed
  bool whole = true;  // the host has no others here
  std::vector<DeviceId> devices;
};

std::vector<HostDevices> by_host(const std::vector<DeviceId>& devices, const cluster::Cluster& cluster,
                                 const Speeds& speed = {}) {
  std::vector<HostDevices> hosts;
  std::map<std::pair<int64_t, double>, size_t> place;
  std::map<int64_t, int> parts;
  for (const DeviceId device : devices) {
    const HostId host = cluster.host_of(device);
    const auto slow = speed.find(device);
    const double share = slow == speed.end() ? 1 : slow->second;
    const int64_t domain = cluster.domain_of(host);
    const auto [found, fresh] = place.emplace(std::pair(domain, share), hosts.size());
    if (fresh) {
      hosts.push_back({.host = &cluster.hosts[static_cast<size_t>(host.value)], .share = share, .devices = {}});
      ++parts[domain];
    }
    hosts[found->second].devices.push_back(device);
  }
  for (HostDevices& entry : hosts) entry.whole = parts[cluster.domain_of(cluster.host_of(entry.devices.front()))] == 1;
  return hosts;
}

std::vector<HostDevices> by_speed(const std::vector<DeviceId>& devices, const cluster::Cluster& cluster, Math math,
                                  const Speeds& speed) {
  std::vector<HostDevices> hosts = by_host(devices, cluster, speed);
  std::stable_sort(hosts.begin(), hosts.end(), [math](const HostDevices& a, const HostDevices& b) {
    const double rate_a = matrix_rate(a.host->gpu, math) * a.share, rate_b = matrix_rate(b.host->gpu, math) * b.share;
    return rate_a == rate_b ? a.whole && !b.whole : rate_a > rate_b;
  });
  return hosts;
}

// Tensor-parallel groups that are whole inside what lies together.
std::vector<DeviceId> whole_groups(const std::vector<HostDevices>& hosts, int tp) {
  std::vector<DeviceId> taken;
  for (const HostDevices& entry : hosts) {
    const std::vector<DeviceId>& devices = entry.devices;
    const size_t group = std::min(static_cast<size_t>(tp), static_cast<size_t>(cluster::joined(*entry.host).gpus));
    const size_t whole = devices.size() / group * group;
    taken.insert(taken.end(), devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(whole));
  }
  return taken;
}

}  // namespace

double matrix_rate(const cluster::GpuKind& gpu, Math math) {
  return peak_flops(gpu, math) * efficiency_of(gpu, math).matrix;
}

std::vector<DeviceId> fastest_first(const std::vector<DeviceId>& devices, const cluster::Cluster& cluster, Math math,
                                    const Speeds& speed) {
  const bool slow = std::any_of(devices.begin(), devices.end(), [&](DeviceId d) { return speed.count(d) != 0; });
  // Nothing to sort where all are alike: then they need not even be neighbours in their hosts.
  if (!slow && kinds_of_hosts(devices, cluster).size() < 2) return devices;
  std::vector<DeviceId> sorted;
  sorted.reserve(devices.size());
  for (const HostDevices& entry : by_speed(devices, cluster, math, speed))
    sorted.insert(sorted.end(), entry.devices.begin(), entry.devices.end());
  return sorted;
}

std::vector<DeviceId> devices_to_use(const std::vector<DeviceId>& free, int gpus, bool named,
                                     const cluster::Cluster& cluster, Math math, const Speeds& speed) {
  std::vector<DeviceId> first = fastest_first(free, cluster, math, speed);
  first.resize(std::min(first.size(), static_cast<size_t>(std::max(0, gpus))));
  if (named) return first;
  std::sort(first.begin(), first.end());  // hosts fill up in rank order
  return fastest_first(first, cluster, math, speed);
}

std::vector<DeviceId> devices_for(const collection::ParallelConfig& config, const std::vector<DeviceId>& usable,
                                  const cluster::Cluster& cluster, Math math, const Speeds& speed) {
  const auto ranks = static_cast<size_t>(config.world());
  SCALAI_CHECK(usable.size() >= ranks, fmt::format("{} devices for {} ranks", usable.size(), ranks));
  std::vector<DeviceId> taken = whole_groups(by_speed(usable, cluster, math, speed), config.tp);
  if (taken.size() < ranks && !speed.empty()) taken = whole_groups(by_speed(usable, cluster, math, {}), config.tp);
  if (taken.size() < ranks) taken = fastest_first(usable, cluster, math, speed);
  taken.resize(ranks);
  return taken;
}

std::vector<cluster::Host> kinds_of_hosts(const std::vector<DeviceId>& devices, const cluster::Cluster& cluster) {
  std::vector<cluster::Host> kinds;
  const auto price = [](const cluster::Host& host) { return host.price_per_hour / std::max(1, host.gpus); };
  for (const HostDevices& entry : by_host(devices, cluster)) {
    const cluster::Host& host = *entry.host;
    const bool known = std::any_of(kinds.begin(), kinds.end(), [&](const cluster::Host& one) {
      return one.gpu == host.gpu && price(one) == price(host);
    });
    if (!known) kinds.push_back(host);
  }
  return kinds;
}

}  // namespace scalai::step
