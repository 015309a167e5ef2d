#pragma once
// Plans from an old configuration on devices to a new one, made by the strategy's planner and cached by shape. One
// thread; deterministic.
//
// A change is planned with renumbered hosts: hosts of the old devices in rank order, then new hosts by number; racks in
// the order of first use. Two changes that differ only in the names of hosts are one shape, planned once in a cluster
// with these numbers; so a cached and a fresh plan are equal. If data-parallel replicas hold the same state (ZeRO 0, no
// experts), ranks are renumbered, too: ranks with lost devices come last, so that failures in different replicas are
// one shape. A restore from storage does not depend on old places: one shape per new layout.
//
//   key = model, old and new layout, old devices in rank order, lost hosts among theirs, new devices; host kinds, racks

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/plan/plan.h"
#include "sim/jobs/planned/configurations.h"
#include "sim/jobs/planned/fabric.h"
#include "sim/jobs/planned/planned.h"

namespace scalai::jobs {

// State of a job: a configuration on devices, in rank order. The model outlives it.
struct HeldState {
  const JobModel* model = nullptr;
  collection::ParallelConfig config;
  std::vector<DeviceId> devices;
};

// A wait, then flows; the next stage begins after both.
struct ChangeStage {
  double wait_s = 0;
  std::shared_ptr<const FlowGroup> flows;  // null = no flows
  bool is_transfer = false;                // belongs to the phase transfer of `scalai sim`
};

// Contents of a change of one shape. Places refer to `Planned::hosts`.
struct ChangeShape {
  std::vector<ChangeStage> stages;  // all stages but detection
  std::vector<Place> place_of_rank;
  plan::ClassBytes bytes;
  int32_t rounds = 0;
  int64_t hops = 0;    // longest chain of hops of a round, for estimates
  std::string digest;  // of the plan, with the numbers of the shape
};

class ChangePlanner {
 public:
  enum class Source : uint8_t {
    kDevices,     // state of surviving devices
    kHostMemory,  // the same, but kept state comes back from host memory
    kStorage,     // the last checkpoint
  };
  // The pointers must live during the call.
  struct Question {
    const HeldState* from = nullptr;  // ignored for kStorage
    std::set<HostId> lost;            // hosts of `from` with lost state
    const Configuration* to = nullptr;
    std::vector<DeviceId> devices;  // devices for the new state, at least one per rank of `to`
    Source source = Source::kDevices;
  };
  struct Planned {
    std::shared_ptr<const ChangeShape> shape;
    std::vector<HostId> hosts;             // host k of the shape
    std::vector<DeviceId> device_of_rank;  // of the new state
  };

  // The cluster outlives the planner.
  ChangePlanner(const cluster::Cluster& cluster, ChangeStrategy strategy);

  // Errors: those of the planner; FailedPrecondition: some state has no holder (query survives() first).
  absl::StatusOr<Planned> plan(const Question& question);
  // The same without use of the cache.
  absl::StatusOr<Planned> plan_anew(const Question& question) const;

  int64_t made() const { return made_; }
  int64_t hits() const { return hits_; }
  const ChangeStrategy& strategy() const { return strategy_; }

 private:
  const cluster::Cluster& cluster_;
  const ChangeStrategy strategy_;
  std::map<std::string, std::shared_ptr<const ChangeShape>> shapes_;
  int64_t made_ = 0, hits_ = 0;
};

// True if the surviving ranks hold all of the state: every part of it is on a rank whose host is not lost. Parameters
// are cut by tp, pp, ep and etp; with ZeRO-1 and above state is also cut by dp. The job's own state (random numbers,
// step, data cursor) is on tp 0, cp 0 of the first pipeline stage of each replica. A lost rank with an empty share of
// every tensor counts as if it held something.
bool survives(const HeldState& state, const std::set<HostId>& lost, const cluster::Cluster& cluster);

}  // namespace scalai::jobs
