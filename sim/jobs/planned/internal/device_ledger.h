#pragma once
// Which GPUs of its hosts a job has: placements count them, plans and network NICs need to know.

#include <map>
#include <vector>

#include "ptc/cluster/cluster.h"
#include "ptc/run/policy/fleet.h"

namespace scalai::jobs::internal {

class DeviceLedger {
 public:
  explicit DeviceLedger(const cluster::Cluster& cluster);

  // Gives a job the GPUs of a placement: on each host first those among `own`, then free ones by number. Where too
  // few are free (their holder's change is announced later at the same instant), any by number. By number.
  std::vector<DeviceId> take(policy::JobId job, const policy::Placement& placement, const std::vector<DeviceId>& own);
  // What the job has is free.
  void give(policy::JobId job);

 private:
  const cluster::Cluster& cluster_;
  std::vector<policy::JobId> holder_;  // by device
  std::map<policy::JobId, std::vector<DeviceId>> held_;
};

}  // namespace scalai::jobs::internal
