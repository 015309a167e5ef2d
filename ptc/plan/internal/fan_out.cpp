#include "ptc/plan/internal/fan_out.h"

#include <algorithm>
#include <tuple>

#include "ptc/base/status.h"

namespace scalai::plan::internal {

const DevicesByHost::Group* DevicesByHost::find(HostId host) const {
  const auto at = std::lower_bound(groups.begin(), groups.end(), host,
                                   [](const Group& group, HostId wanted) { return group.host < wanted; });
  return at != groups.end() && at->host == host ? &*at : nullptr;
}

DevicesByHost by_host(const std::vector<DeviceId>& devices, const Cluster& cluster) {
  std::vector<std::pair<HostId, DeviceId>> pairs;
  for (const DeviceId device : devices) pairs.emplace_back(cluster.host_of(device), device);
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  DevicesByHost result;
  if (!devices.empty()) result.first = devices.front();
  for (const auto& [host, device] : pairs) {
    if (result.groups.empty() || result.groups.back().host != host) result.groups.push_back({host, {}});
    result.groups.back().devices.push_back(device);
  }
  return result;
}

FanOut::FanOut(const Cluster& cluster, const PlannerOptions& options)
    : cluster_(cluster),
      options_(options),
      sent_(static_cast<size_t>(cluster.device_count()), 0),
      received_(sent_),
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
      pass_on(here->devices, group.devices, 0, bytes);
    } else {
      across.push_back(&group);
    }
  }
  if (!across.empty()) cross_hosts(holders, std::move(across), bytes);
  return std::move(legs_);
}

// Chains inside one host, one from each of the least loaded sources.
void FanOut::pass_on(std::vector<DeviceId> sources, const std::vector<DeviceId>& wanting, int32_t hop, int64_t bytes) {
  const size_t chains = std::min(sources.size(), wanting.size());
  std::partial_sort(sources.begin(), sources.begin() + static_cast<std::ptrdiff_t>(chains), sources.end(),
                    [&](DeviceId a, DeviceId b) { return std::pair(sent(a), a) < std::pair(sent(b), b); });
  for (size_t chain = 0; chain < chains; ++chain) {
    DeviceId from = sources[chain];
    int32_t at = hop;
    for (size_t i = chain; i < wanting.size(); i += chains, ++at) {
      send(from, wanting[i], TransferClass::kSameHost, at, bytes);
      from = wanting[i];
    }
  }
}

// Chains of hosts, one from each of the source hosts that have sent least.
void FanOut::cross_hosts(const DevicesByHost& holders, std::vector<const Group*> wanting, int64_t bytes) {
  const auto less_crossing = [&](const Group* a, const Group* b) {
    return std::pair(crossing(a->host), a->host) < std::pair(crossing(b->host), b->host);
  };
  std::vector<const Group*> sources;
  for (const Group& group : holders.groups) sources.push_back(&group);
  const size_t chains = std::min(sources.size(), wanting.size());
  std::partial_sort(sources.begin(), sources.begin() + static_cast<std::ptrdiff_t>(chains), sources.end(),
                    less_crossing);
  // Hosts that have sent least pass on; the end of a chain sends nothing.
  std::sort(wanting.begin(), wanting.end(), less_crossing);
  for (size_t chain = 0; chain < chains; ++chain) {
    DeviceId from = least_loaded(sources[chain]->devices, sent_);
    int32_t hop = 0;
    for (size_t i = chain; i < wanting.size(); i += chains, ++hop) {
      std::vector<DeviceId> others = wanting[i]->devices;
      const DeviceId entry = least_loaded(others, received_);
      std::erase(others, entry);
      send(from, entry, TransferClass::kCrossHost, hop, bytes);
      if (!others.empty()) pass_on({entry}, others, hop + 1, bytes);
      from = entry;
    }
  }
}

// Every device for itself: from the first replica, or (staged) from the nearest host's memory.
void FanOut::pull_each(const DevicesByHost& holders, const DevicesByHost& wanting, int64_t bytes) {
  for (const Group& group : wanting.groups) {
    for (const DeviceId dst : group.devices) {
      HostId source = cluster_.host_of(holders.first);
      if (options_.sources == SourceRule::kNearest) {
        const auto cost = [&](const Group& holder) {
          return std::tuple(holder.host != group.host, crossing(holder.host), holder.host);
        };
        source = std::min_element(holders.groups.begin(), holders.groups.end(), [&](const Group& a, const Group& b) {
                   return cost(a) < cost(b);
                 })->host;
      }
      if (options_.hub.valid()) source = options_.hub;
      const bool same = source == group.host;
      if (!same) crossing(source) += bytes;
      legs_.push_back({options_.in_place ? Location::device(holders.first) : Location::host_memory(source), dst,
                       same ? TransferClass::kSameHost : TransferClass::kCrossHost, 0});
    }
  }
}

DeviceId FanOut::least_loaded(const std::vector<DeviceId>& devices, const std::vector<int64_t>& load) const {
  return *std::min_element(devices.begin(), devices.end(), [&](DeviceId a, DeviceId b) {
    return std::pair(load[static_cast<size_t>(a.value)], a) < std::pair(load[static_cast<size_t>(b.value)], b);
  });
}

void FanOut::send(DeviceId src, DeviceId dst, TransferClass transfer_class, int32_t hop, int64_t bytes) {
  sent_[static_cast<size_t>(src.value)] += bytes;
  received_[static_cast<size_t>(dst.value)] += bytes;
  if (transfer_class == TransferClass::kCrossHost) crossing(cluster_.host_of(src)) += bytes;
  legs_.push_back({Location::device(src), dst, transfer_class, hop});
}

}  // namespace scalai::plan::internal
