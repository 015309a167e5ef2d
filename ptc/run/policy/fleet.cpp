#include "ptc/run/policy/fleet.h"

#include <algorithm>
#include <map>

#include "ptc/cluster/cluster.h"

namespace scalai::policy {

int Fleet::gpus(GpuType type) const {
  int sum = 0;
  for (const HostSpec& host : hosts) sum += host.type == type ? host.gpus : 0;
  return sum;
}

int Fleet::gpus() const {
  int sum = 0;
  for (const HostSpec& host : hosts) sum += host.gpus;
  return sum;
}

Fleet fleet_of(const cluster::Cluster& cluster) {
  Fleet fleet;
  std::map<std::string, GpuType> known;
  for (const cluster::Host& host : cluster.hosts) {
    const auto [type, fresh] = known.emplace(host.gpu.name, GpuType(static_cast<int64_t>(fleet.types.size())));
    if (fresh)
      fleet.types.push_back(
          {.name = host.gpu.name, .price_per_gpu_hour = host.price_per_hour / std::max(1, host.gpus)});
    fleet.hosts.push_back({.type = type->second, .gpus = host.gpus});
  }
  return fleet;
}

int Placement::gpus() const {
  int sum = 0;
  for (const HostShare& share : hosts) sum += share.gpus;
  return sum;
}

}  // namespace scalai::policy
