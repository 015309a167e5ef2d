#include "ptc/plan/internal/fan_out.h"

#include <algorithm>
#include <tuple>

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

DevicesByHost by_host(const std::vector<DeviceId>& devices, const Cluster& cluster, const std::vector<HostId>& copies) {
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

FanOut::FanOut(const Cluster& cluster, const PlannerOptions& options)
    : cluster_(cluster),
      options_(options),
      sent_(static_cast<size_t>(cluster.device_count()), 0),
      received_(sent_),
      memory_sent_(cluster.hosts.size(), 0),
      crossing_(cluster.hosts.size(), 0) {}

std::vector<Leg> FanOut::distribute(const DevicesByHost& holders, const DevicesByHost& wanting, int64_t bytes) {
  SCALAI_CHECK(!holders.groups.empty());
  legs_.clear();
  if (!options_.in_place || options_.sources == SourceRule::kFirstReplica) {
    pull_each(holders, wanting, bytes);
    return std::move(legs_);
  }
  std::vector<const Group*> across;
  for (const Group& group : wanting.groups) {
    const Group* here = holders.find(group.host);
    if (here != nullptr) {
      pass_on(sources_of(*here), group.devices, 0, bytes);
    } else {
      across.push_back(&group);
    }
  }
  if (!across.empty()) cross_racks(holders, across, bytes);
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

// Racks with a holder serve themselves; all others are served by all.
void FanOut::cross_racks(const DevicesByHost& holders, const std::vector<const Group*>& wanting, int64_t bytes) {
  const auto in_rack = [&](const std::vector<const Group*>& groups, int rack) {
    std::vector<const Group*> inside;
    for (const Group* group : groups) {
      if (cluster_.rack_of(group->host) == rack) inside.push_back(group);
    }
    return inside;
  };
  std::vector<const Group*> sources, elsewhere;
  for (const Group& group : holders.groups) sources.push_back(&group);
  std::vector<int> served;
  for (const Group* group : wanting) {
    const int rack = cluster_.rack_of(group->host);
    if (std::find(served.begin(), served.end(), rack) != served.end()) continue;
    std::vector<const Group*> near = in_rack(sources, rack);
    if (near.empty()) {
      elsewhere.push_back(group);
      continue;
    }
    served.push_back(rack);
    cross_hosts(std::move(near), in_rack(wanting, rack), bytes);
  }
  if (!elsewhere.empty()) cross_hosts(std::move(sources), std::move(elsewhere), bytes);
}

// Chains of hosts, one from each of the source hosts that have sent least. Hosts of one rack follow one another.
void FanOut::cross_hosts(std::vector<const Group*> sources, std::vector<const Group*> wanting, int64_t bytes) {
  const auto less_crossing = [&](const Group* a, const Group* b) {
    return std::pair(crossing(a->host), a->host) < std::pair(crossing(b->host), b->host);
  };
  const size_t chains = std::min(sources.size(), wanting.size());
  std::partial_sort(sources.begin(), sources.begin() + static_cast<std::ptrdiff_t>(chains), sources.end(),
                    less_crossing);
  // Hosts that have sent least pass on; the end of a chain sends nothing.
  std::sort(wanting.begin(), wanting.end(), less_crossing);
  for (size_t chain = 0; chain < chains; ++chain) {
    Location from = least_loaded(*sources[chain]);
    int32_t hop = 0;
    for (size_t i = chain; i < wanting.size(); i += chains, ++hop) {
      std::vector<DeviceId> others = wanting[i]->devices;
      const DeviceId entry = least_receiving(others);
      std::erase(others, entry);
      send(from, entry, TransferClass::kCrossHost, hop, bytes);
      from = Location::device(entry);
      if (!others.empty()) pass_on({from}, others, hop + 1, bytes);
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
  const std::vector<Location> sources = sources_of(group);
  return *std::min_element(sources.begin(), sources.end(), [&](const Location& a, const Location& b) {
    return std::pair(sent(a), a) < std::pair(sent(b), b);
  });
}

DeviceId FanOut::least_receiving(const std::vector<DeviceId>& devices) const {
  return *std::min_element(devices.begin(), devices.end(), [&](DeviceId a, DeviceId b) {
    return std::pair(received_[static_cast<size_t>(a.value)], a) <
           std::pair(received_[static_cast<size_t>(b.value)], b);
  });
}

int64_t& FanOut::sent(const Location& place) {
  return (place.kind == Location::Kind::kDevice ? sent_ : memory_sent_)[static_cast<size_t>(place.index)];
}

void FanOut::send(Location src, DeviceId dst, TransferClass transfer_class, int32_t hop, int64_t bytes) {
  sent(src) += bytes;
  received_[static_cast<size_t>(dst.value)] += bytes;
  if (transfer_class == TransferClass::kCrossHost)
    crossing(src.kind == Location::Kind::kDevice ? cluster_.host_of(DeviceId(src.index)) : HostId(src.index)) += bytes;
  legs_.push_back({.transfer_class = transfer_class, .hop = hop, .src = src, .dst = dst});
}

}  // namespace scalai::plan::internal
