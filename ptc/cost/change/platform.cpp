#include "ptc/cost/change/platform.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::change {
namespace {

using plan::Location;

std::string copy_link(int host, int local) { return fmt::format("h{}.g{}.copy", host, local); }

}  // namespace

StoreRates store_rates(const cluster::Host& host, const StoreShares& shares) {
  const auto or_share = [&](double own, double share) { return own > 0 ? own : share * memory_bytes_per_s(host); };
  return {.serve_bytes_per_s = or_share(host.store_serve_bytes_per_s, shares.serve),
          .ingest_bytes_per_s = or_share(host.store_ingest_bytes_per_s, shares.ingest)};
}

Platform::Platform(const cluster::Cluster& cluster, LinkRates rates, const StoreShares& stores)
    : cluster_(cluster), tiers_(cluster::tiers_of(cluster)) {
  const auto add_link = [&](const std::string& name, double bandwidth) {
    link_index_[name] = static_cast<int>(spec_.links.size());
    spec_.links.push_back({name, bandwidth});
  };
  cluster::Cluster used = rates == LinkRates::kReached ? cluster::reached(cluster) : cluster;
  for (size_t h = 0; h < used.hosts.size(); ++h) {
    const StoreRates own = store_rates(cluster.hosts[h], stores);
    used.hosts[h].store_serve_bytes_per_s = own.serve_bytes_per_s;
    used.hosts[h].store_ingest_bytes_per_s = own.ingest_bytes_per_s;
  }
  for (const cluster::NamedLink& link : cluster::links_of(used)) add_link(link.name, link.bandwidth_bytes_per_s);
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    const cluster::Host& host = cluster.hosts[h];
    for (int local = 0; local < host.gpus; ++local) {
      if (host.gpu.memory_bandwidth_bytes_per_s > 0) {
        add_link(copy_link(static_cast<int>(h), local), host.gpu.memory_bandwidth_bytes_per_s / 2);
      }
    }
  }
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    for (int local = 0; local < cluster.hosts[h].gpus; ++local) add_device_endpoints(static_cast<int>(h), local);
    add_host_endpoints(static_cast<int>(h));
  }
  std::vector<int> read, write;
  append(read, "storage.read");
  append(read, "fabric");
  append(write, "storage.write");
  add_endpoint(Place::kStorage, 0, top(), read, write);
}

int Platform::link(const std::string& name) const {
  const auto found = link_index_.find(name);
  return found == link_index_.end() ? -1 : found->second;
}

void Platform::append(std::vector<int>& links, const std::string& name) const {
  if (const int index = link(name); index >= 0) links.push_back(index);
}

void Platform::append_copies(std::vector<int>& links, int host) const {
  append(links, fmt::format("h{}.copy", host));
  append(links, "machine.copy");
}

void Platform::add_endpoint(Place place, int index, Reach reach, std::vector<int> up, std::vector<int> down) {
  endpoint_index_[{place, index, reach}] = static_cast<int>(spec_.endpoints.size());
  const std::string name = fmt::format("e{}.{}.{}", static_cast<int>(place), index, reach);
  spec_.endpoints.push_back({name, std::move(up), std::move(down)});
}

// At the other end of the network, for each reach. `out` and `in`: the links between the place and its NIC.
void Platform::add_remote_endpoints(Place place, int index, int host, int nic, const std::vector<int>& out,
                                    const std::vector<int>& in) {
  std::vector<int> up = out, down;
  append(up, fmt::format("h{}.nic{}.up", host, nic));
  append(down, fmt::format("h{}.nic{}.down", host, nic));
  down.insert(down.end(), in.begin(), in.end());
  for (Reach reach = 1; reach <= top(); ++reach) {
    if (reach > 1) {
      const cluster::Tier& tier = tiers_[static_cast<size_t>(reach - 2)];
      const std::string name = fmt::format("{}{}", tier.name, tier.switch_of(HostId(host), nic));
      append(up, name + ".up");
      if (const int index_down = link(name + ".down"); index_down >= 0) down.insert(down.begin(), index_down);
    }
    std::vector<int> over_fabric = up;
    append(over_fabric, "fabric");
    add_endpoint(place, index, reach, std::move(over_fabric), down);
  }
}

void Platform::add_device_endpoints(int host, int local) {
  const int device = cluster_.hosts[static_cast<size_t>(host)].first_device + local;
  const std::string gpu = fmt::format("h{}.g{}", host, local);
  std::vector<int> up, down, pcie_up, pcie_down, copy, copied;
  append(up, gpu + ".up");
  append(down, gpu + ".down");
  append_copies(down, host);
  add_endpoint(Place::kDevice, device, kLocal, up, down);
  append(pcie_up, gpu + ".pcie.up");
  append(pcie_down, gpu + ".pcie.down");
  append_copies(pcie_down, host);
  add_endpoint(Place::kDevicePcie, device, kLocal, pcie_up, pcie_down);
  append(copy, copy_link(host, local));
  append_copies(copied, host);
  add_endpoint(Place::kDeviceCopy, device, kLocal, copy, copied);
  const Location here = Location::device(DeviceId(device));
  add_remote_endpoints(Place::kDevice, device, host, nic_of(here, here, 0), pcie_up, pcie_down);
}

void Platform::add_host_endpoints(int host) {
  for (const Place place : {Place::kStore, Place::kProcess}) {
    std::vector<int> serve, ingest;
    if (place == Place::kStore) {
      append(serve, fmt::format("h{}.store.serve", host));
      append(ingest, fmt::format("h{}.store.ingest", host));
    }
    append_copies(ingest, host);
    add_endpoint(place, host, kLocal, serve, ingest);
    for (int nic = 0; nic < std::max(1, cluster_.hosts[static_cast<size_t>(host)].nics); ++nic)
      add_remote_endpoints(place, memory_index(host, nic), host, nic, serve, ingest);
  }
}

HostId Platform::host_of(Location place) const {
  switch (place.kind) {
    case Location::Kind::kDevice: return cluster_.host_of(DeviceId(place.index));
    case Location::Kind::kHostMemory: return HostId(place.index);
    case Location::Kind::kStorage: break;
  }
  return HostId();
}

int Platform::nic_of(Location place, Location other, int lane) const {
  if (place.kind == Location::Kind::kStorage) return 0;
  const cluster::Host& host = cluster_.hosts[static_cast<size_t>(host_of(place).value)];
  if (place.kind == Location::Kind::kDevice) return cluster_.local_index(DeviceId(place.index)) * host.nics / host.gpus;
  const int wanted = other.kind == Location::Kind::kDevice ? nic_of(other, other, 0) : lane;
  return wanted % std::max(1, host.nics);
}

bool Platform::joined(Location src, Location dst) const {
  if (src.kind != Location::Kind::kDevice || dst.kind != Location::Kind::kDevice) return false;
  return domain_of(DeviceId(src.index)) == domain_of(DeviceId(dst.index));
}

Platform::Reach Platform::reach_of(Location src, Location dst, int src_nic, int dst_nic) const {
  const HostId a = host_of(src), b = host_of(dst);
  if (a == b || joined(src, dst)) return kLocal;
  if (!a.valid() || !b.valid()) return top();  // storage hangs off the top of the fabric
  for (size_t t = 0; t < tiers_.size(); ++t) {
    if (tiers_[t].switch_of(a, src_nic) == tiers_[t].switch_of(b, dst_nic)) return static_cast<Reach>(t) + 1;
  }
  return top();
}

int Platform::endpoint(Location location, int nic, bool process, bool same_device, bool to_host, Reach reach) const {
  Place place = Place::kStorage;
  int index = location.index;
  if (location.kind == Location::Kind::kHostMemory) {
    place = process ? Place::kProcess : Place::kStore;
    if (reach != kLocal) index = memory_index(location.index, nic);
  }
  if (location.kind == Location::Kind::kDevice) {
    const bool over_pcie = to_host && reach == kLocal;
    place = same_device ? Place::kDeviceCopy : over_pcie ? Place::kDevicePcie : Place::kDevice;
  }
  return endpoint_index_.at({place, index, reach});
}

std::pair<int, int> Platform::route(Location src, Location dst, bool src_process, bool dst_process, int lane) const {
  const int src_nic = nic_of(src, dst, lane), dst_nic = nic_of(dst, src, lane);
  const Reach reach = reach_of(src, dst, src_nic, dst_nic);
  const bool host_memory = src.kind == Location::Kind::kHostMemory || dst.kind == Location::Kind::kHostMemory;
  const bool same_device = src == dst && src.kind == Location::Kind::kDevice;
  return {endpoint(src, src_nic, src_process, same_device, host_memory, reach),
          endpoint(dst, dst_nic, dst_process, same_device, host_memory, reach)};
}

}  // namespace scalai::change
