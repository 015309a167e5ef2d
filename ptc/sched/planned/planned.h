#pragma once
// Changes of GPUs as they would be done: the parallelizer chooses the configuration for the new GPUs, the planner plans
// the way there from where the state is (cached by shape, change_plan.h), and the bytes flow over the fabric that all
// changes and all training share. A ChangeModel for the engine. One thread; deterministic.
//
// What a change takes: detection (kLost only), then the stages of ptc/change/stages.h; a job that waited has its state
// restored from host memory. First GPUs of a job: restart and communicators; its initial state is made in place.
//
// Where the state comes from. What the job's last complete epoch put on devices whose hosts are alive is there, also
// while it waits: survivors hold it until the job is back, and a job that was preempted has a copy in its hosts'
// memory, which comes back over PCIe (that this copy was made is not charged). If survivors hold every box, only the
// step under way is lost (kLost), or nothing. Else, and with `from_checkpoint` at every change, all devices read the
// last checkpoint from storage, and the iterations since then are run again: checkpoints are one every
// `checkpoint_every_s` of training, whole steps. Where there was none yet the job begins again.
//
// A host that fails while a change takes state from it (host_lost): the change is given up and planned again from then
// on by the same rules, after detection. Flows that ended before are not counted on.
//
// Lost work is what begin() and host_lost() return; therefore the engine's Checkpoints::every_s stays 0 with this model (that would
// take work away a second time).
//
// Not modelled: the step that is under way when the policy decides is not waited for; writing checkpoints loads no
// link; memory caps; degraded links and devices.

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/change/costs.h"
#include "ptc/plan/planner.h"
#include "ptc/sched/change.h"
#include "ptc/sched/planned/configurations.h"
#include "ptc/sched/planned/fabric.h"

namespace scalai::sched {

// How jobs react: the fields of control::Strategy of the same names. Defaults: those of "reshard".
struct ChangeStrategy {
  plan::PlannerOptions planner = {.name = "reshard", .placement = plan::PlacementRule::kHosts};
  bool from_checkpoint = false;
  change::Costs costs = {.detect_s = 5, .plan_s = 0.1, .verify_bytes_per_s = 50e9, .transfer_start_s = 0.001};
};

struct PlannedOptions {
  ChangeStrategy strategy;
  double checkpoint_every_s = 0;  // of training; 0 = none is ever written
  double checkpoint_write_s = 0;  // training stands still so long for each; counted evenly, in the pace
  int most_planned_gpus = 512;    // expected_s() of larger jobs is arithmetic until such a change has been planned
};

// How much was planned and how much was found.
struct PlannedCounts {
  int64_t changes = 0;    // begun
  int64_t plans = 0;      // made
  int64_t plan_hits = 0;  // found in the cache
  int64_t from_survivors = 0, from_storage = 0, started = 0;
  plan::ClassBytes bytes;  // of all changes begun
};

class PlannedChanges : public ChangeModel {
 public:
  virtual const PlannedCounts& counts() const = 0;
};

// All outlive the model. `changes.preset`'s counterpart: `strategy`.
std::unique_ptr<PlannedChanges> make_planned_changes(const Configurations& configurations, Fabric& fabric,
                                                     const PlannedOptions& options);

// For recovery designs of one job (ptc/sched/recovery): what going from `hosts_before` hosts of the cluster to
// `hosts_after` takes when those at the places `lost` are gone. Host k of the job is host k of the cluster; survivors
// keep their order, new ones come from behind the first `hosts_before`.
struct RecoveryQuestion {
  int hosts_before = 0;  // 0 = a start
  int hosts_after = 0;
  std::vector<int> lost;      // places in [0, hosts_before)
  bool from_storage = false;  // the state is on no host: the last checkpoint is read
};
struct RecoveryCost {
  double seconds = 0;  // with nothing else on the fabric
  // All of the state is on survivors, and only the step under way is lost; else the last checkpoint is read from
  // storage and the work since then is lost.
  bool from_survivors = true;
  plan::ClassBytes bytes;
};

class RecoveryPlans {
 public:
  virtual ~RecoveryPlans() = default;
  // Errors (InvalidArgument): nothing fits so many hosts, the cluster has fewer.
  virtual absl::StatusOr<RecoveryCost> cost(const RecoveryQuestion& question) = 0;
  // Whether the hosts that are not lost hold all of the state; `hosts_after` is not looked at.
  virtual bool survives(const RecoveryQuestion& question) const = 0;
  // Seconds of a step on so many hosts; 0 where nothing fits.
  virtual double step_s(int hosts) const = 0;
};
// All but `strategy` and `job` outlive it. Plans are cached by shape.
std::unique_ptr<RecoveryPlans> make_recovery_plans(const Configurations& configurations, const Fabric& fabric,
                                                   const ChangeStrategy& strategy, const Job& job);

}  // namespace scalai::sched
