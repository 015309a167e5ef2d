#pragma once
// From a policy's grants to devices. Hosts are those of policy::place_grant, as in sim/jobs; on a host a job takes its
// own devices first, then those that nobody is on, then those that others are about to leave.

#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/control/internal/policy_view.h"
#include "ptc/run/policy/decision.h"

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

// The jobs whose devices change, by number. Errors: those of place_grant.
absl::StatusOr<std::vector<Wish>> wishes_of(const policy::Grants& grants, const PolicyView& view,
                                            const cluster::Cluster& cluster, const Standing& standing);

}  // namespace scalai::control
