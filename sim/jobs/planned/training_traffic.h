#pragma once
// Traffic of a training job between hosts, per step, from the parts of its step (ptc/cost/step/step_time.h):
// collectives over the network, from each rank to the member in the same position on the group's next host; messages
// between pipeline stages, in both directions. Collectives inside hosts are left out. Pure function; any thread.
//
//   bytes        all messages and collectives of a step between two places
//   bytes_per_s  these bytes over their seconds on an idle network: the rate while the job communicates
//   exposed_s    communication over the network in the step of the closed form: tp, cp, ep, pipeline, gradients

#include <memory>
#include <vector>

#include "sim/jobs/planned/configurations.h"
#include "sim/jobs/planned/fabric.h"

namespace scalai::jobs {

struct JobTraffic {
  std::shared_ptr<const TrainingTraffic> traffic;  // null: no traffic between hosts
  std::vector<HostId> hosts;                       // hosts of its places
};

// `devices` in rank order.
JobTraffic training_traffic(const Configuration& configuration, const std::vector<DeviceId>& devices,
                            const cluster::Cluster& cluster);

}  // namespace scalai::jobs
