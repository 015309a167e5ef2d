#pragma once
// The fabric that many jobs share: changes of GPUs as flows over the links of sim/platform.h, max-min fairly by our
// exact solver, beside the traffic of jobs that train. Implements ptc/sched/planned/fabric.h; needs no SimGrid.
//
// Changes share links with each other as any flows do. A job that trains is not simulated step by step. While no change
// uses a link that it sends over, it has its nominal pace (what several jobs that train do to each other is not
// counted). While some do:
//
//   got        when it communicates, its flows compete with those of changes, and of other such jobs, as any others:
//              the max-min rates of all these together. A flow draws at most what it does alone
//              (TrainingTraffic::bytes_per_s).
//   base       the same rates without the changes
//   x          max over its flows of base / got                                          how much longer it
//   communicates
//   step'      max( step + exposed · (x − 1),  max over its flows of bytes / got )       the second: not even hidden
//              communication is done before
//   pace       step / step'
//   left       a change has, of every link, the bandwidth less what training takes of it on average, bytes / step' of
//   each flow
//
// So a change slows down training by what they take from each other while training communicates, and has the whole
// link, as it is there, for the rest of the time. That is exact when a change outlasts many steps; what happens within
// one step is smeared over it.
//
// A group that shares no link with any other, nor with training, takes what it takes alone; that is computed once for
// each group and kept, so that the changes of a job of 16,384 GPUs cost nothing once their shape is known. When
// something else begins on its links, it goes on from where it would be at that moment.

#include <memory>

#include "ptc/plan/cluster.h"
#include "ptc/sched/planned/fabric.h"

namespace scalai::sim {

struct FabricCounts {
  int64_t groups = 0;        // started
  int64_t contended = 0;     // of these, shared a link at some time
  int64_t alone_solved = 0;  // times alone that were computed, not found
};

class ChangeFabric : public sched::Fabric {
 public:
  virtual const FabricCounts& counts() const = 0;
};

// The cluster outlives it.
std::unique_ptr<ChangeFabric> make_change_fabric(const plan::Cluster& cluster);

}  // namespace scalai::sim
