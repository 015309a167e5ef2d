#include "ptc/plan/internal/fan_out.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "ptc/base/status.h"

namespace scalai::plan::internal {
namespace {

std::vector<Location> sources_of(const DevicesByHost::Group& group) {
  std::vector<Location> sources;
  for (const DeviceId device : group.devices) sources.push_back(Location::device(device));
  if (group.copy) sources.push_back(Location::host_memory(group.host));
  return sources;
}

}  // namespace

const DevicesByHost::Group* DevicesByHost::find(HostId host) const {
  const auto at = std::lower_bound(groups.begin(), groups.end(), host,
                                   [](const Group& group, HostId wanted) { return group.host < wanted; });
  return at != groups.end() && at->host == host ? &*at : nullptr;
}

DevicesByHost by_host(const std::vector<DeviceId>& devices, const cluster::Cluster& cluster,
                      const std::vector<HostId>& copies) {
  std::vector<std::pair<HostId, DeviceId>> pairs;
  for (const DeviceId device : devices) pairs.emplace_back(cluster.host_of(device), device);
  for (const HostId host : copies) pairs.emplace_back(host, DeviceId());
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  DevicesByHost result;
  if (!devices.empty()) result.first = devices.front();
  for (const auto& [host, device] : pairs) {
    if (result.groups.empty() || result.groups.back().host != host) result.groups.push_back({.host = host});
    if (device.valid()) {
      result.groups.back().devices.push_back(device);
    } else {
      result.groups.back().copy = true;
    }
  }
  return result;
}

FanOut::FanOut(const cluster::Cluster& cluster, const PlannerOptions& options) : cluster_(cluster), options_(options) {
  loads_.sent.assign(static_cast<size_t>(cluster.device_count()), 0);
  loads_.received = loads_.entered = loads_.sent;
  loads_.memory_sent.assign(cluster.hosts.size(), 0);
  loads_.crossing = loads_.entering = loads_.memory_sent;
  const bool domains = std::any_of(cluster.hosts.begin(), cluster.hosts.end(),
                                   [](const cluster::Host& host) { return host.nvlink_domain >= 0; });
  if (domains) levels_.push_back(Nearness::kDomain);
  if (cluster.rack_count() > 0) levels_.push_back(Nearness::kRack);
  if (cluster.group_hosts > 0) levels_.push_back(Nearness::kGroup);
}

std::vector<Leg> FanOut::distribute(const DevicesByHost& holders, const DevicesByHost& wanting, int64_t bytes) {
  SCALAI_CHECK(!holders.groups.empty());
  legs_.clear();
  if (!options_.in_place || options_.sources == SourceRule::kFirstReplica) {
    pull_each(holders, wanting, bytes);
    return std::move(legs_);
  }
  if (!options_.relay) {
    fetch_each(holders, wanting, bytes);
    return std::move(legs_);
  }
  pass_on_inside(holders, wanting, bytes);
  for (Crossing& crossing : crossings(holders, wanting)) cross_hosts(std::move(crossing), bytes);
  return std::move(legs_);
}

Leg FanOut::direct(DeviceId holder, DeviceId wanting, int64_t bytes) {
  const bool same = cluster_.host_of(holder) == cluster_.host_of(wanting);
  legs_.clear();
  send(Location::device(holder), wanting, same ? TransferClass::kSameHost : TransferClass::kCrossHost, 0, bytes);
  return legs_.front();
}

// Chains inside one host, one from each of the least loaded sources.
void FanOut::pass_on(std::vector<Location> sources, const std::vector<DeviceId>& wanting, int32_t hop, int64_t bytes) {
  const size_t chains = std::min(sources.size(), wanting.size());
  std::partial_sort(
      sources.begin(), sources.begin() + static_cast<std::ptrdiff_t>(chains), sources.end(),
      [&](const Location& a, const Location& b) { return std::pair(sent(a), a) < std::pair(sent(b), b); });
  for (size_t chain = 0; chain < chains; ++chain) {
    Location from = sources[chain];
    int32_t at = hop;
    for (size_t i = chain; i < wanting.size(); i += chains, ++at) {
      send(from, wanting[i], TransferClass::kSameHost, at, bytes);
      from = Location::device(wanting[i]);
    }
  }
}

// On hosts that hold it already.
void FanOut::pass_on_inside(const DevicesByHost& holders, const DevicesByHost& wanting, int64_t bytes) {
  for (const Group& group : wanting.groups) {
    const Group* here = holders.find(group.host);
    if (here != nullptr) pass_on(sources_of(*here), group.devices, 0, bytes);
  }
}

// What lies together, the nearest first: NVLink domain, rack, and pod, dragonfly group or block of rails. Those with a
// holder serve themselves; what has none is served by all.
std::vector<FanOut::Crossing> FanOut::crossings(const DevicesByHost& holders, const DevicesByHost& wanting) const {
  std::vector<Crossing> found;
  std::map<std::pair<Nearness, int64_t>, size_t> known;
  Crossing elsewhere;
  const auto number = [&](Nearness level, HostId host) -> int64_t {
    return level == Nearness::kDomain ? cluster_.domain_of(host)
           : level == Nearness::kRack ? cluster_.rack_of(host)
                                      : cluster_.group_of(host);
  };
  const auto together = [&](Nearness level, const Group& group) -> size_t {
    const auto [entry, fresh] = known.try_emplace({level, number(level, group.host)}, found.size());
    if (fresh) {
      Crossing inside;
      for (const Group& holder : holders.groups) {
        if (number(level, holder.host) == entry->first.second) inside.sources.push_back(&holder);
      }
      found.push_back(std::move(inside));
    }
    return entry->second;
  };
  for (const Group& group : wanting.groups) {
    if (holders.find(group.host) != nullptr) continue;
    Crossing* nearest = &elsewhere;
    for (const Nearness level : levels_) {
      Crossing& inside = found[together(level, group)];
      if (inside.sources.empty()) continue;
      nearest = &inside;
      break;
    }
    nearest->wanting.push_back(&group);
  }
  std::erase_if(found, [](const Crossing& crossing) { return crossing.wanting.empty(); });
  if (elsewhere.wanting.empty()) return found;
  for (const Group& group : holders.groups) elsewhere.sources.push_back(&group);
  found.push_back(std::move(elsewhere));
  return found;
}

bool FanOut::less_crossing(const Group* a, const Group* b) {
  return std::pair(crossing(a->host), a->host) < std::pair(crossing(b->host), b->host);
}

// Chains of hosts, one from each of the source hosts that have sent least. Hosts of one rack follow one another.
void FanOut::cross_hosts(Crossing hosts, int64_t bytes) {
  const auto less = [&](const Group* a, const Group* b) { return less_crossing(a, b); };
  std::vector<const Group*>&sources = hosts.sources, &wanting = hosts.wanting;
  const size_t chains = std::min(sources.size(), wanting.size());
  std::partial_sort(sources.begin(), sources.begin() + static_cast<std::ptrdiff_t>(chains), sources.end(), less);
  // Hosts that have sent least pass on; the end of a chain sends nothing.
  std::sort(wanting.begin(), wanting.end(), less);
  for (size_t first = 0; first < chains; ++first) chain(least_loaded(*sources[first]), wanting, first, chains, bytes);
}

// Over every step-th of these hosts.
void FanOut::chain(Location from, const std::vector<const Group*>& hosts, size_t first, size_t step, int64_t bytes) {
  int32_t hop = 0;
  for (size_t i = first; i < hosts.size(); i += step, ++hop) from = enter(from, *hosts[i], hop, bytes);
}

std::vector<Leg> FanOut::read(const DevicesByHost& wanting, StorageReads reads, int64_t bytes) {
  SCALAI_CHECK(reads != StorageReads::kEachDevice);
  legs_.clear();
  std::vector<const Group*> hosts;
  for (const Group& group : wanting.groups) hosts.push_back(&group);
  if (reads == StorageReads::kOnce) {
    std::sort(hosts.begin(), hosts.end(), [&](const Group* a, const Group* b) { return less_crossing(a, b); });
    chain(Location::storage(), hosts, 0, 1, bytes);
  } else {
    for (const Group* host : hosts) enter(Location::storage(), *host, 0, bytes);
  }
  return std::move(legs_);
}

// Into a host: one device receives and passes on to the others. Returns where it arrived.
Location FanOut::enter(const Location& from, const Group& wanting, int32_t hop, int64_t bytes) {
  const DeviceId entry = wanting.devices.size() == 1 ? wanting.devices.front() : least_entered(wanting.devices);
  const bool stored = from.kind == Location::Kind::kStorage;
  send(from, entry, stored ? TransferClass::kFromStorage : TransferClass::kCrossHost, hop, bytes);
  if (wanting.devices.size() > 1) {
    std::vector<DeviceId> others = wanting.devices;
    std::erase(others, entry);
    pass_on({Location::device(entry)}, others, hop + 1, bytes);
  }
  return Location::device(entry);
}

std::vector<Exchange> FanOut::exchanges(const DevicesByHost& holders, const DevicesByHost& wanting, bool hosts) const {
  std::vector<Exchange> found;
  if (hosts) {
    for (const Crossing& crossing : crossings(holders, wanting)) {
      found.emplace_back();
      for (const Group* group : crossing.sources) found.back().holders.push_back(group->host.value);
      for (const Group* group : crossing.wanting) found.back().wanting.push_back(group->host.value);
    }
    return found;
  }
  for (const Group& group : wanting.groups) {
    const Group* here = holders.find(group.host);
    if (here == nullptr) continue;
    found.emplace_back();
    for (const DeviceId device : here->devices) found.back().holders.push_back(device.value);
    for (const DeviceId device : group.devices) found.back().wanting.push_back(device.value);
    std::sort(found.back().holders.begin(), found.back().holders.end());
    std::sort(found.back().wanting.begin(), found.back().wanting.end());
    if (here->copy) found.back().holders.push_back(cluster_.device_count() + group.host.value);
  }
  return found;
}

std::vector<Leg> FanOut::along(const DevicesByHost& holders, const DevicesByHost& wanting, bool hosts,
                               const std::vector<std::vector<Edge>>& exchanges, int64_t bytes) {
  legs_.clear();
  if (hosts) pass_on_inside(holders, wanting, bytes);
  const int devices = cluster_.device_count();
  absl::flat_hash_map<int32_t, Location> arrived;  // by host; never iterated
  for (const std::vector<Edge>& edges : exchanges) {
    for (const Edge& edge : edges) {
      if (!hosts) {
        const Location from = edge.from < devices ? Location::device(DeviceId(edge.from))
                                                  : Location::host_memory(HostId(edge.from - devices));
        send(from, DeviceId(edge.to), TransferClass::kSameHost, edge.hop, bytes);
        continue;
      }
      const auto known = arrived.find(edge.from);
      const Location from = known != arrived.end() ? known->second : least_loaded(*holders.find(HostId(edge.from)));
      arrived[edge.to] = enter(from, *wanting.find(HostId(edge.to)), edge.hop, bytes);
    }
  }
  return std::move(legs_);
}

// Every device for itself, from the nearest device that held it before, of several hosts from that which has sent
// least.
void FanOut::fetch_each(const DevicesByHost& holders, const DevicesByHost& wanting, int64_t bytes) {
  for (const Group& group : wanting.groups) {
    const Group* here = holders.find(group.host);
    if (here == nullptr) continue;
    for (const DeviceId dst : group.devices) send(least_loaded(*here), dst, TransferClass::kSameHost, 0, bytes);
  }
  for (const Crossing& hosts : crossings(holders, wanting)) {
    for (const Group* group : hosts.wanting) {
      for (const DeviceId dst : group->devices) {
        const Group* source = *std::min_element(hosts.sources.begin(), hosts.sources.end(),
                                                [&](const Group* a, const Group* b) { return less_crossing(a, b); });
        send(least_loaded(*source), dst, TransferClass::kCrossHost, 0, bytes);
      }
    }
  }
}

// Every device for itself: from the first replica, or (staged) from the nearest host's memory.
void FanOut::pull_each(const DevicesByHost& holders, const DevicesByHost& wanting, int64_t bytes) {
  const bool device_holds = holders.first.valid();
  for (const Group& group : wanting.groups) {
    for (const DeviceId dst : group.devices) {
      HostId source = device_holds ? cluster_.host_of(holders.first) : holders.groups.front().host;
      if (options_.sources == SourceRule::kNearest) {
        const auto cost = [&](const Group& holder) {
          return std::tuple(holder.host != group.host, crossing(holder.host), holder.host);
        };
        source = std::min_element(holders.groups.begin(), holders.groups.end(), [&](const Group& a, const Group& b) {
                   return cost(a) < cost(b);
                 })->host;
      }
      if (options_.hub.valid() && device_holds) source = options_.hub;
      const bool same = source == group.host;
      if (!same) crossing(source) += bytes;
      const bool from_device = options_.in_place && device_holds;
      legs_.push_back({.transfer_class = same ? TransferClass::kSameHost : TransferClass::kCrossHost,
                       .hop = 0,
                       .src = from_device ? Location::device(holders.first) : Location::host_memory(source),
                       .dst = dst});
    }
  }
}

Location FanOut::least_loaded(const Group& group) {
  if (group.devices.size() == 1 && !group.copy) return Location::device(group.devices.front());
  const std::vector<Location> sources = sources_of(group);
  return *std::min_element(sources.begin(), sources.end(), [&](const Location& a, const Location& b) {
    return std::pair(sent(a), a) < std::pair(sent(b), b);
  });
}

// All that want a box receive it, so what they have received does not tell them apart; the NIC it comes by does.
DeviceId FanOut::least_entered(const std::vector<DeviceId>& devices) const {
  const auto load = [&](DeviceId device) {
    const auto at = static_cast<size_t>(device.value);
    return std::tuple(loads_.entered[at], loads_.received[at], device);
  };
  return *std::min_element(devices.begin(), devices.end(), [&](DeviceId a, DeviceId b) { return load(a) < load(b); });
}

int64_t& FanOut::sent(const Location& place) {
  const bool device = place.kind == Location::Kind::kDevice;
  return (device ? loads_.sent : loads_.memory_sent)[static_cast<size_t>(place.index)];
}

void FanOut::send(Location src, DeviceId dst, TransferClass transfer_class, int32_t hop, int64_t bytes) {
  if (transfer_class != TransferClass::kFromStorage) sent(src) += bytes;
  loads_.received[static_cast<size_t>(dst.value)] += bytes;
  if (transfer_class != TransferClass::kSameHost) loads_.entered[static_cast<size_t>(dst.value)] += bytes;
  if (transfer_class == TransferClass::kCrossHost) {
    const bool device = src.kind == Location::Kind::kDevice;
    crossing(device ? cluster_.host_of(DeviceId(src.index)) : HostId(src.index)) += bytes;
    loads_.entering[static_cast<size_t>(cluster_.host_of(dst).value)] += bytes;
  }
  legs_.push_back({.transfer_class = transfer_class, .hop = hop, .src = src, .dst = dst});
}

bool FanOut::Loads::crosses() const {
  return std::any_of(crossing.begin(), crossing.end(), [](int64_t bytes) { return bytes > 0; });
}

std::vector<int64_t> FanOut::Loads::by_place(bool hosts) const {
  if (hosts) return crossing;
  std::vector<int64_t> loads = sent;
  loads.insert(loads.end(), memory_sent.begin(), memory_sent.end());
  return loads;
}

int64_t FanOut::Loads::most_received(bool hosts) const {
  const std::vector<int64_t>& loads = hosts ? entering : received;
  return loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
}

int64_t FanOut::Loads::hottest(bool hosts) const {
  const std::vector<int64_t> loads = by_place(hosts);
  return loads.empty() ? 0 : std::max(most_received(hosts), *std::max_element(loads.begin(), loads.end()));
}

}  // namespace scalai::plan::internal
