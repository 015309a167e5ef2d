#include "sim/jobs/planned/internal/device_ledger.h"

#include <algorithm>
#include <set>

#include "ptc/base/status.h"

namespace scalai::jobs::internal {

DeviceLedger::DeviceLedger(const cluster::Cluster& cluster)
    : cluster_(cluster), holder_(static_cast<size_t>(cluster.device_count())) {}

void DeviceLedger::give(policy::JobId job) {
  const auto found = held_.find(job);
  if (found == held_.end()) return;
  for (const DeviceId device : found->second) {
    policy::JobId& holder = holder_[static_cast<size_t>(device.value)];
    if (holder == job) holder = policy::JobId();
  }
  held_.erase(found);
}

std::vector<DeviceId> DeviceLedger::take(policy::JobId job, const policy::Placement& placement,
                                         const std::vector<DeviceId>& own) {
  give(job);
  const std::set<DeviceId> mine(own.begin(), own.end());
  std::vector<DeviceId> taken;
  for (const policy::HostShare& share : placement.hosts) {
    std::vector<DeviceId> devices = cluster_.devices_of(share.host);
    SCALAI_CHECK(share.gpus <= static_cast<int>(devices.size()));
    const auto rank = [&](DeviceId device) {
      if (holder_[static_cast<size_t>(device.value)].valid()) return 2;
      return mine.count(device) != 0 ? 0 : 1;
    };
    std::stable_sort(devices.begin(), devices.end(), [&](DeviceId a, DeviceId b) { return rank(a) < rank(b); });
    taken.insert(taken.end(), devices.begin(), devices.begin() + share.gpus);
  }
  std::sort(taken.begin(), taken.end());
  for (const DeviceId device : taken) holder_[static_cast<size_t>(device.value)] = job;
  return held_[job] = taken;
}

}  // namespace scalai::jobs::internal
