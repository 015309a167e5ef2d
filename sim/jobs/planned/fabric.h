#pragma once
// Interface of the network that all jobs of a cluster share: groups of flows that start together and end with their
// last flow, and the traffic of training jobs. sim/jobs/change_fabric.h shares links max-min fairly;
// make_unshared_fabric() has no contention. One thread; deterministic.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ptc/cluster/cluster.h"
#include "ptc/run/policy/job.h"

namespace scalai::jobs {

// A place on host number `host` of an accompanying list of hosts (abstract host k is hosts[k]), so that one set of
// flows serves all changes of one shape.
struct Place {
  int32_t host = -1;  // -1 = shared storage
  int32_t gpu = -1;   // index on its host; -1 = host memory
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct FlowGroup {
  struct Flow {
    Place src, dst;
    int64_t bytes = 0;
    bool src_process = false, dst_process = false;  // host memory outside the host's store (ptc/cost/change/platform.h)
    int lane = 0;                                   // as Platform::route
    friend auto operator<=>(const Flow&, const Flow&) = default;
  };
  std::vector<Flow> flows;  // several flows between the same places have a share each
};

// Traffic of a training job between hosts, per step.
struct TrainingTraffic {
  struct Flow {
    Place src, dst;
    double bytes = 0;        // per step
    double bytes_per_s = 0;  // rate while it communicates without contention; 0 = the rate of the links
  };
  std::vector<Flow> flows;
  double step_s = 0;
  double exposed_s = 0;  // part of a step: communication between hosts that nothing hides
};

class Fabric {
 public:
  using GroupId = int64_t;
  struct End {
    GroupId group = 0;
    double at_s = 0;
  };
  virtual ~Fabric() = default;

  // Starts all flows of a group; now_s is not before any time of advance(). An empty group ends at once.
  virtual GroupId start(std::shared_ptr<const FlowGroup> group, std::vector<HostId> hosts, double now_s) = 0;
  // Removes a group that has not ended; it is not reported.
  virtual void cancel(GroupId group, double now_s) = 0;
  // Time of the next end if nothing else begins; kNever when no group is under way.
  virtual double next_end_s() const = 0;
  // Advances time to `to_s`; returns the groups that ended until then, sorted by (at_s, group).
  virtual std::vector<End> advance(double to_s) = 0;

  // A job trains from now on, with this traffic; replaces its former traffic. Null: it sends nothing between hosts.
  virtual void train(policy::JobId job, std::shared_ptr<const TrainingTraffic> traffic, std::vector<HostId> hosts,
                     double now_s) = 0;
  virtual void stop(policy::JobId job, double now_s) = 0;
  // The job's share of its nominal step rate, in (0, 1]. The version grows when any share changes.
  virtual double step_rate(policy::JobId job) const = 0;
  virtual uint64_t step_rate_version() const = 0;

  // Seconds of a group without contention.
  virtual double alone_s(const std::shared_ptr<const FlowGroup>& group, std::span<const HostId> hosts) const = 0;
  virtual std::string description() const = 0;
};

// A fabric without contention: the time of a group is the time of its most loaded link for its own bytes (NICs, GPU
// links, PCIe, leaves, storage), and training has its nominal step rate. `cluster` outlives it.
std::unique_ptr<Fabric> make_unshared_fabric(const cluster::Cluster& cluster);

}  // namespace scalai::jobs
