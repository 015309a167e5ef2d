#pragma once
// The time that a job needs to get other GPUs: the interface to published constants, to costs computed from plans, and
// to flows on the shared fabric. From begin() until its end is reported, a job holds its new GPUs and does not train.
// One thread; deterministic.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"

namespace scalai::jobs {

enum class ChangeCause : uint8_t {
  kStart,   // first GPUs of the job
  kResume,  // it had no GPUs for a while; its state is where it was left
  kPolicy,  // the policy moved or resized it
  kLost,    // some or all of its GPUs failed
  kTaken,   // its GPUs were taken after a notice
};

// One change. The placements must live during begin() only.
struct Change {
  policy::JobId job;
  const policy::Job* spec = nullptr;        // outlives the model
  const policy::Placement* from = nullptr;  // before (kResume: the last one with GPUs); empty at the start
  const policy::Placement* to = nullptr;
  ChangeCause cause = ChangeCause::kPolicy;
  std::vector<HostId> lost;  // hosts of `from` that are gone
  double now_s = 0;
  int restarts = 0;  // earlier changes of the job
  double work_done = 0;
};

struct ChangeEnd {
  policy::JobId job;
  double at_s = 0;
};

// Iterations to run again.
struct LostWork {
  policy::JobId job;
  double iterations = 0;
};

class ChangeModel {
 public:
  virtual ~ChangeModel() = default;

  // Starts a change at change.now_s, which is not before any time of advance(). Replaces a change of the job that is
  // under way. Returns the lost work: iterations to run again, >= 0.
  virtual absl::StatusOr<double> begin(const Change& change) = 0;
  // Abandons the change of a job that lost its GPUs or finished; no effect if there is none.
  virtual void cancel(policy::JobId job, double now_s) = 0;
  // A host failed (kLost) or was taken (kTaken) at now_s, after the jobs on it lost their GPUs. Other jobs with state
  // on it notice it at their next change. A change under way that takes state from the host is planned again from now
  // on. Returns the work lost by that, by job.
  virtual absl::StatusOr<std::vector<LostWork>> host_lost(HostId /*host*/, ChangeCause /*cause*/, double /*now_s*/) {
    return std::vector<LostWork>{};
  }
  // Time of the next end if nothing else begins; kNever when no change is under way.
  virtual double next_end_s() const = 0;
  // Advances time to `to_s`; returns the changes that ended until then, sorted by (at_s, job).
  virtual std::vector<ChangeEnd> advance(double to_s) = 0;

  // Training jobs share the fabric with changes. training() and idle() report where jobs train; step_rate() is the
  // share of the nominal step rate of a training job, in (0, 1]. The engine queries all training jobs again when
  // `step_rate_version` changed. Default: no contention.
  virtual void training(policy::JobId /*job*/, const policy::Job& /*spec*/, const policy::Placement& /*placement*/,
                        double /*now_s*/) {}
  virtual void idle(policy::JobId /*job*/, double /*now_s*/) {}
  virtual uint64_t step_rate_version() const { return 0; }
  virtual double step_rate(policy::JobId /*job*/) const { return 1; }
  // True if step_rate() can differ from 1.
  virtual bool slows_training() const { return false; }

  // Expected seconds of a change, for policies that weigh it.
  virtual double expected_s(const policy::Job& job, int from_gpus, int to_gpus) const = 0;
  virtual std::string description() const = 0;
};

// A fixed time: `start_s` for the first GPUs of a job, `change_s` for any other change.
struct ConstantCost {
  double change_s = 0;
  double start_s = 0;
};
std::unique_ptr<ChangeModel> make_constant_changes(const ConstantCost& cost);

// Published constants by name: "none", "gavel-sim", "pollux", "sia", "elasticflow", "tiresias", "afs", "oobleck",
// "bamboo", "varuna", "parcae" (docs/scenarios.md). `fleet` is used during the call only. InvalidArgument: another
// name; the message has the closest ones.
absl::StatusOr<std::unique_ptr<ChangeModel>> make_preset_changes(const std::string& name, const policy::Fleet& fleet);
std::vector<std::string> change_preset_names();

}  // namespace scalai::jobs
