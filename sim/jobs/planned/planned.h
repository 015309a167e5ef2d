#pragma once
// Changes of GPUs by plans: the parallelizer chooses the configuration for the new GPUs, the planner plans the movement
// of the state (cached by shape, change_plan.h), and the bytes flow over the fabric shared by all changes and all
// training. A ChangeModel for the engine. One thread; deterministic.
//
// Time of a change: detection (kLost only), then the stages of ptc/cost/change/stages.h. A job that waited gets its
// state from host memory. The first GPUs of a job cost restart and communicators; its initial state is created in
// place.
//
// Source of the state. The state of the job's last complete epoch is on its devices on live hosts, also while the job
// waits; a preempted job has a copy in the memory of its hosts, which comes back over PCIe (the copy itself is free).
// If survivors hold every box, only the step under way is lost (kLost, kTaken), or nothing. Otherwise, and always with
// `from_checkpoint`, all devices read the last checkpoint from storage, and the iterations since then run again. A
// checkpoint is written every `checkpoint_every_s` of training, rounded to whole steps. Without any checkpoint the job
// starts again. With `from_checkpoint` a change that is told ahead begins with a checkpoint (save_first). GPUs that
// are taken after a notice are left with one, which takes no time of the change.
//
// If a host fails while a change takes state from it (host_lost), the change is abandoned and planned again from then
// on by the same rules, after detection. Flows that ended before do not count.
//
// begin() and host_lost() return the lost work. Keep the engine's Checkpoints::every_s at 0 with this model: it would
// count lost work twice.
//
// Not modelled: a policy's change does not wait for the end of the step; checkpoint writes load no link; memory caps;
// degraded links and devices.

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cost/change/costs.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/planner.h"
#include "sim/jobs/change.h"
#include "sim/jobs/planned/configurations.h"
#include "sim/jobs/planned/fabric.h"

namespace scalai::jobs {

// Reaction of jobs to changes: the fields of scenario::Strategy with the same names. Defaults: strategy "reshard".
struct ChangeStrategy {
  plan::PlannerOptions planner = {.name = "reshard"};
  plan::PlacementOptions placement = {.rule = plan::PlacementRule::kHosts};
  bool from_checkpoint = false;
  bool save_first = true;  // with from_checkpoint: before all changes but those for a loss
  change::Costs costs = {
      .plan_s = 0.1, .verify_bytes_per_s = 50e9, .transfer_start_s = 0.001, .messages = plan::kMeasuredMessages};
};

struct PlannedOptions {
  ChangeStrategy strategy;
  double checkpoint_every_s = 0;  // seconds of training; 0 = no checkpoints
  double checkpoint_write_s = 0;  // training stops for this long for each checkpoint; averaged over time in step_rate()
  int most_planned_gpus = 512;    // expected_s() of larger jobs is arithmetic until such a change was planned
};

// Statistics.
struct PlannedCounts {
  int64_t changes = 0;    // begun
  int64_t plans = 0;      // computed
  int64_t plan_hits = 0;  // from the cache
  int64_t from_survivors = 0, from_storage = 0, started = 0;
  plan::ClassBytes bytes;  // of all changes begun
};

class PlannedChanges : public ChangeModel {
 public:
  // Lives as long as the model.
  virtual const PlannedCounts& counts() const = 0;
};

// All references outlive the model. begin() returns InvalidArgument if no configuration fits the new GPUs.
std::unique_ptr<PlannedChanges> make_planned_changes(const Configurations& configurations, Fabric& fabric,
                                                     const PlannedOptions& options);

// A question of a recovery design for one job (sim/jobs/recovery): the change from `hosts_before` hosts to
// `hosts_after` when the hosts at the places `lost` are gone. Host k of the job is host k of the cluster; survivors
// keep their order, new hosts follow the first `hosts_before`.
struct RecoveryQuestion {
  int hosts_before = 0;  // 0 = a start
  int hosts_after = 0;
  std::vector<int> lost;      // places in [0, hosts_before)
  bool from_storage = false;  // no host has the state: read the last checkpoint
};
struct RecoveryCost {
  double seconds = 0;   // without detection, and without other traffic on the fabric
  double moving_s = 0;  // of these, until the last transfer is over
  // True: survivors hold all of the state, and only the step under way is lost. False: the last checkpoint is read from
  // storage, and the work since then is lost.
  bool from_survivors = true;
  plan::ClassBytes bytes;
};

class RecoveryPlans {
 public:
  virtual ~RecoveryPlans() = default;
  // InvalidArgument: no configuration fits so many hosts, or the cluster has fewer.
  virtual absl::StatusOr<RecoveryCost> cost(const RecoveryQuestion& question) = 0;
  // True if the remaining hosts hold all of the state; ignores `hosts_after`.
  virtual bool survives(const RecoveryQuestion& question) const = 0;
  // Seconds of a step on so many hosts; 0 if no configuration fits.
  virtual double step_s(int hosts) const = 0;
};
// `configurations` and `fabric` outlive it. Plans are cached by shape. One thread.
std::unique_ptr<RecoveryPlans> make_recovery_plans(const Configurations& configurations, const Fabric& fabric,
                                                   const ChangeStrategy& strategy, const policy::Job& job);

}  // namespace scalai::jobs
