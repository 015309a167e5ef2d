#pragma once
// From an old configuration on devices to a new one: plans of the strategy's planner, kept by shape.
//
// A change is planned with its hosts renumbered: those of the old devices in rank order, then new ones by number; racks
// by the order in which they come first. Two changes that differ in the names of hosts only are one shape, which is
// planned once in a cluster of those numbers; so the answer for a change is the same whether it was found or made.
// Where data-parallel replicas hold the same (ZeRO 0, no experts), the ranks are renumbered too, so that those which
// lost devices come last: failures in different replicas are one shape. What is read from storage does not depend on
// where anything was: one shape for each new layout.
//
//   key = model, old and new layout, old devices in rank order, which of their hosts are lost, new devices; host kinds,
//   racks
//
// One thread; deterministic.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/plan/plan.h"
#include "ptc/sched/planned/configurations.h"
#include "ptc/sched/planned/fabric.h"
#include "ptc/sched/planned/planned.h"

namespace scalai::sched {

// What a job holds: a configuration on devices, in rank order.
struct HeldState {
  const JobModel* model = nullptr;
  collection::ParallelConfig config;
  std::vector<DeviceId> devices;
};

// A wait, then flows; the next stage begins when both are over.
struct ChangeStage {
  double wait_s = 0;
  std::shared_ptr<const FlowGroup> flows;  // null = none
  bool is_transfer = false;                // part of the phase that `scalai sim` calls transfer
};

// What a change of a certain shape does. Places count hosts as its `Planned::hosts` does.
struct ChangeShape {
  std::vector<ChangeStage> stages;  // all but detection
  std::vector<Place> place_of_rank;
  plan::ClassBytes bytes;
  int32_t rounds = 0;
  int64_t hops = 0;    // the longest chain of a round, for estimates
  std::string digest;  // of the plan, in the shape's numbers
};

class ChangePlanner {
 public:
  enum class Source : uint8_t {
    kDevices,     // what surviving devices hold
    kHostMemory,  // the same, but kept state comes back from the host's memory
    kStorage,     // the last checkpoint
  };
  struct Question {
    const HeldState* from = nullptr;  // kStorage: not looked at
    std::set<HostId> lost;            // hosts of `from` whose devices hold nothing
    const Configuration* to = nullptr;
    std::vector<DeviceId> devices;  // it may use, at least as many as `to` has ranks
    Source source = Source::kDevices;
  };
  struct Planned {
    std::shared_ptr<const ChangeShape> shape;
    std::vector<HostId> hosts;             // abstract host k
    std::vector<DeviceId> device_of_rank;  // of the new state
  };

  ChangePlanner(const plan::Cluster& cluster, ChangeStrategy strategy);

  // Errors: the planner's; state without a holder (FailedPrecondition: ask survives() first).
  absl::StatusOr<Planned> plan(const Question& question);
  // The same without looking into the cache or leaving anything in it.
  absl::StatusOr<Planned> plan_anew(const Question& question) const;

  int64_t made() const { return made_; }
  int64_t hits() const { return hits_; }
  const ChangeStrategy& strategy() const { return strategy_; }

 private:
  const plan::Cluster& cluster_;
  const ChangeStrategy strategy_;
  std::map<std::string, std::shared_ptr<const ChangeShape>> shapes_;
  int64_t made_ = 0, hits_ = 0;
};

// Whether the surviving ranks of a configuration hold all of the state: each part of it is on one whose host is not
// lost. Parameters are cut by tp, pp, ep and etp, with ZeRO-1 optimizer state by dp as well, with ZeRO-3 parameters
// too; a lost rank with an empty share of every tensor counts as if it held something.
bool survives(const HeldState& state, const std::set<HostId>& lost, const plan::Cluster& cluster);

}  // namespace scalai::sched
