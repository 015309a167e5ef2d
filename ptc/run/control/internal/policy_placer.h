#pragma once
// From a policy's grants to devices: which GPUs each job is to have. Where a grant names hosts, on those; else as few
// hosts as it takes, the job's own devices first, and such that nobody has to leave before the others.

#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/control/internal/policy_view.h"

namespace scalai::control {

// All by job or by device of the cluster.
struct Standing {
  std::vector<std::vector<DeviceId>> granted;  // to jobs by decisions before
  std::vector<std::vector<DeviceId>> home;     // where their state is, in rank order; of those that never ran nothing
  std::vector<char> usable;                    // devices that are up, and not to be left
  std::vector<char> held;                      // devices that a job is on at the moment, whoever they are granted to
};

// Devices in the order in which they were chosen: those of its own in rank order, then others by number.
struct Wish {
  int job = 0;
  std::vector<DeviceId> devices;  // empty: none, it waits
};

// The jobs whose devices change, by number. Error (Internal, exit 5): a job that is not there or is named twice, GPUs
// that are not there, hosts that do not add up, several jobs on the same GPUs. It names job and host.
absl::StatusOr<std::vector<Wish>> wishes_of(const policy::Decision& decision, const PolicyView& view,
                                            const cluster::Cluster& cluster, const Standing& standing);

}  // namespace scalai::control
