#pragma once
// The fabric that many jobs share: changes of GPUs as flows over the links of ptc/cost/change/platform.h, with max-min
// fair shares by our exact solver, beside the traffic of training jobs. Implements sim/jobs/planned/fabric.h;
// independent of SimGrid. One thread.
//
// Changes share links with each other as all flows do. A training job is not simulated step by step. While no change
// uses a link of its traffic, it has its nominal step rate; contention among training jobs is not modelled. Otherwise:
//
//   got        max-min rates while the job communicates, with the flows of changes and of other such jobs; a flow draws
//              at most the rate it has alone (TrainingTraffic::bytes_per_s)
//   base       the same rates without the changes
//   x          max over its flows of base / got: factor by which its communication takes longer
//   step'      max( step + exposed · (x − 1),  max over its flows of bytes / got ); the second: a step ends
//              after all of its communication, also the hidden one
//   step rate  step / step'
//   left       of every link, for changes: bandwidth less the mean use of training, bytes / step' of each flow
//
// So a change slows training by the contention while training communicates, and has the whole remaining bandwidth for
// the rest of the time. This is exact when a change lasts many steps; effects within one step are averaged over it.
//
// A group that shares no link with other groups or with training takes its time alone. That time is computed once per
// group and cached, so that changes of a job of 16,384 GPUs cost nothing once their shape is known. When another flow
// begins on its links, the group continues from its state at that moment.

#include <memory>

#include "ptc/cluster/cluster.h"
#include "sim/jobs/planned/fabric.h"

namespace scalai::sim {

struct FabricCounts {
  int64_t groups = 0;        // started
  int64_t contended = 0;     // of these, shared a link at some time
  int64_t alone_solved = 0;  // times alone that were computed, not cached
};

class ChangeFabric : public jobs::Fabric {
 public:
  // Lives as long as the fabric.
  virtual const FabricCounts& counts() const = 0;
};

// The cluster outlives the fabric.
std::unique_ptr<ChangeFabric> make_change_fabric(const cluster::Cluster& cluster);

}  // namespace scalai::sim
