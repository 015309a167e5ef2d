#pragma once
// The network that all jobs of a cluster share, as changes of GPUs see it: groups of flows that start together and are
// done when the last of them is, and the traffic of jobs that train. The interface; sim/change_fabric.h has the one
// that shares links max-min fairly, make_unshared_fabric() one in which nobody disturbs anybody. One thread;
// deterministic.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ptc/plan/cluster.h"
#include "ptc/sched/job.h"

namespace scalai::sched {

// A place on some host; which one says the list of hosts that goes with it (abstract host k is hosts[k]). So that one
// set of flows serves all changes of one shape.
struct Place {
  int32_t host = -1;  // -1 = shared storage
  int32_t gpu = -1;   // on its host; -1 = the host's memory
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct FlowGroup {
  struct Flow {
    Place src, dst;
    int64_t bytes = 0;
    bool src_process = false, dst_process = false;  // host memory that is not the host's store (sim/platform.h)
    friend auto operator<=>(const Flow&, const Flow&) = default;
  };
  std::vector<Flow> flows;  // several between the same places share links as several
};

// What one step of a job that trains sends between hosts.
struct TrainingTraffic {
  struct Flow {
    Place src, dst;
    double bytes = 0;        // a step
    double bytes_per_s = 0;  // while it communicates and nobody disturbs it; 0 = as fast as the links are
  };
  std::vector<Flow> flows;
  double step_s = 0;
  double exposed_s = 0;  // of a step that is communication between hosts which nothing hides
};

class Fabric {
 public:
  using GroupId = int64_t;
  struct End {
    GroupId group = 0;
    double at_s = 0;
  };
  virtual ~Fabric() = default;

  // Starts all flows of a group; now_s is not before any time advanced to. An empty group ends at once.
  virtual GroupId start(std::shared_ptr<const FlowGroup> group, std::vector<HostId> hosts, double now_s) = 0;
  virtual void cancel(GroupId group, double now_s) = 0;
  // When the next group ends if nothing else begins; kNever when none is under way.
  virtual double next_end_s() const = 0;
  // Groups that ended until then, by (at_s, group).
  virtual std::vector<End> advance(double to_s) = 0;

  // A job trains from now on; replaces what it did before. Null traffic: it sends nothing between hosts.
  virtual void train(JobId job, std::shared_ptr<const TrainingTraffic> traffic, std::vector<HostId> hosts,
                     double now_s) = 0;
  virtual void stop(JobId job, double now_s) = 0;
  // Share of its nominal pace, in (0, 1]; the version grows whenever any of them changes.
  virtual double pace(JobId job) const = 0;
  virtual uint64_t pace_version() const = 0;

  // Seconds that a group takes with nothing beside it.
  virtual double alone_s(const std::shared_ptr<const FlowGroup>& group, std::span<const HostId> hosts) const = 0;
  virtual std::string description() const = 0;
};

// No contention: a group takes as long as its hottest link needs for its own bytes (cards, GPU links, PCIe, leaves,
// storage), and training has its full pace. `cluster` outlives it.
std::unique_ptr<Fabric> make_unshared_fabric(const plan::Cluster& cluster);

}  // namespace scalai::sched
