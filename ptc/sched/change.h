#pragma once
// What it takes to give a job other GPUs: the seam between published constants, costs computed from plans, and flows on
// the shared fabric. From begin() until the model says that it is done the job holds its new GPUs (and, where
// `holds_source`, the old ones) and does not train. One thread; deterministic.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/sched/fleet.h"
#include "ptc/sched/job.h"

namespace scalai::sched {

enum class ChangeCause : uint8_t {
  kStart,   // first GPUs of the job
  kResume,  // had none for a while; its state is where it was left
  kPolicy,  // the policy moved or resized it
  kLost,    // some or all of its GPUs failed
  kTaken,   // they were taken after a notice
};

struct Change {
  JobId job;
  const Job* spec = nullptr;        // outlives the model, the placements the call
  const Placement* from = nullptr;  // before (for kResume: where it last ran); empty at the start
  const Placement* to = nullptr;
  ChangeCause cause = ChangeCause::kPolicy;
  std::vector<HostId> lost;  // hosts of `from` that are gone
  double now_s = 0;
  int restarts = 0;  // before this one
  double work_done = 0;
};

struct ChangeEnd {
  JobId job;
  double at_s = 0;
};

// Iterations that a job has to do again.
struct LostWork {
  JobId job;
  double iterations = 0;
};

class ChangeModel {
 public:
  virtual ~ChangeModel() = default;

  // Starts a change at change.now_s (not before any time advanced to). A change of a job that is under way is replaced.
  // Returns the part of the job's work that is lost with it: iterations to be done again, >= 0.
  virtual absl::StatusOr<double> begin(const Change& change) = 0;
  // Gives up the change of a job (it lost its GPUs or finished); nothing if there is none.
  virtual void cancel(JobId job, double now_s) = 0;
  // A host failed (kLost) or was taken (kTaken) at now_s, after the jobs on it lost their GPUs. Jobs with state on it
  // hear of it with their next change; those whose change under way takes state from it take another way, from now on.
  // Returns what these lose by that, by job.
  virtual absl::StatusOr<std::vector<LostWork>> host_lost(HostId /*host*/, ChangeCause /*cause*/, double /*now_s*/) {
    return std::vector<LostWork>{};
  }
  // When the next change ends if nothing else begins; kNever when none is under way.
  virtual double next_end_s() const = 0;
  // Time goes on to `to_s`; changes that ended until then, by (at_s, job).
  virtual std::vector<ChangeEnd> advance(double to_s) = 0;

  // Training jobs share the fabric with changes: tells where jobs train, and asks how fast (share of their rate, in (0,
  // 1]). The default is a fabric without contention. The engine asks again for every training job after `pace_version`
  // changed.
  virtual void training(JobId /*job*/, const Job& /*spec*/, const Placement& /*placement*/, double /*now_s*/) {}
  virtual void idle(JobId /*job*/, double /*now_s*/) {}
  virtual uint64_t pace_version() const { return 0; }
  virtual double pace(JobId /*job*/) const { return 1; }
  // Whether pace() is ever other than 1.
  virtual bool paces() const { return false; }

  // Expected seconds, for policies that weigh them.
  virtual double expected_s(const Job& job, int from_gpus, int to_gpus) const = 0;
  virtual std::string description() const = 0;
};

// A fixed number of seconds for any change but the first (`start_s` for that).
struct ConstantCost {
  double change_s = 0;
  double start_s = 0;
};
std::unique_ptr<ChangeModel> make_constant_changes(const ConstantCost& cost);

// A preset of ptc/sched/README.md by name: "none", "gavel-sim", "pollux", "sia", "elasticflow", "tiresias", "afs",
// "oobleck", "bamboo", "varuna", "parcae". Error: InvalidArgument with the closest names.
absl::StatusOr<std::unique_ptr<ChangeModel>> make_preset_changes(const std::string& name, const Fleet& fleet);
std::vector<std::string> change_preset_names();

}  // namespace scalai::sched
