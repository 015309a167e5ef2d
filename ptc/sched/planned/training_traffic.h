#pragma once
// What a job that trains sends between hosts in a step, out of the parts of its step (ptc/parallel/step_time.h):
// collectives that go over the network, from each rank to the member in its place on the group's next host; messages
// between pipeline stages, both ways. Collectives inside hosts are nobody else's business.
//
//   bytes        all messages and collectives of a step on that way
//   bytes_per_s  these over the seconds they take on an idle network: what the job draws while it communicates
//   exposed_s    of the closed form's step: tp, cp, ep, pipeline, gradients, as far as they go over the network

#include <memory>
#include <vector>

#include "ptc/sched/planned/configurations.h"
#include "ptc/sched/planned/fabric.h"

namespace scalai::sched {

struct JobTraffic {
  std::shared_ptr<const TrainingTraffic> traffic;  // null: nothing between hosts
  std::vector<HostId> hosts;                       // its places' hosts
};

// `devices` in rank order.
JobTraffic training_traffic(const Configuration& configuration, const std::vector<DeviceId>& devices,
                            const plan::Cluster& cluster);

}  // namespace scalai::sched
