#pragma once
// Who gets which GPUs: the interface every policy implements, and what it may look at. A policy is a deterministic
// function of what it was shown (and of its seed): no clock, no threads. The engine calls decide() after everything
// that happened at one instant; the policy answers with what changes. What it does not name stays as it is.
//
// Guarantees of the engine whatever a policy says: never more GPUs than are up, never a job on a device that is down,
// never a job that is not there (a decision that asks for such a thing ends the run with an error that names it).

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/sched/fleet.h"
#include "ptc/sched/job.h"
#include "ptc/sched/throughput.h"

namespace scalai::sched {

// How far a job has come. Valid during one decide().
struct Progress {
  double work_done = 0;       // iterations
  double attained_gpu_s = 0;  // GPUs x seconds held (training or changing)
  double executed_s = 0;      // seconds with GPUs
  double first_start_s = kNever;
  double last_change_s = 0;  // when its GPUs last changed; submission before the first
  int restarts = 0;          // changes of GPUs after the first start
  Placement placement;       // now; empty = waits
  JobId beside;              // shares its GPUs with this job; none = alone
  // Iterations a second if it trains without a stop until it ends, its rate changes (kRate) or its GPUs do; 0 if it
  // does not train, or may be held up: checkpoints are written, others share its GPUs or the fabric.
  double even_per_s = 0;
};

// What a policy may see. References stay valid until decide() returns.
class View {
 public:
  virtual ~View() = default;
  virtual double now_s() const = 0;
  virtual const Fleet& fleet() const = 0;
  virtual int capacity(GpuType type) const = 0;  // GPUs up now and not under notice
  virtual int capacity(HostId host) const = 0;
  virtual double price(GpuType type) const = 0;  // per GPU and hour, now
  virtual const Job& job(JobId id) const = 0;
  virtual Progress progress(JobId id) const = 0;  // O(1)
  // Submitted, admitted and not finished, by id. O(jobs) when it has changed since the last call: policies of order log
  // n keep their own books from the events instead.
  virtual std::span<const JobId> active() const = 0;
  virtual const Throughput& throughput() const = 0;
  // Seconds a change of GPUs of this job is thought to cost (change.h).
  virtual double change_cost_s(JobId id, int to_gpus) const = 0;
};

struct Event {
  enum class Kind : uint8_t {
    kSubmitted,
    kFinished,
    kLost,      // the job lost all its GPUs (a host failed or was taken); it waits
    kRate,      // a running job's rate changed by itself (goodput)
    kCapacity,  // hosts came or went, a notice was given, or a price changed
    kTimer,     // the wake-up the policy asked for
  };
  Kind kind;
  JobId job;
};

// The GPUs a job is to have from now on. A grant that says what a job has already changes nothing; but one without
// hosts moves a job off hosts under notice, even to as many GPUs. Where two that share GPUs are both granted some
// alone, the lower id stays.
struct Grant {
  JobId job;
  GpuType type;
  int gpus = 0;                  // 0 = none: it waits
  std::vector<HostShare> hosts;  // where; empty = the engine places (as few hosts as possible, best fit, its own first)
  JobId beside;                  // on the very GPUs of this job, which is granted or has the same number; none = alone
};

struct Decision {
  std::vector<Grant> grants;   // each job at most once; any order (all are released before any is placed)
  std::vector<JobId> refused;  // never to be run (no admission): they leave the system
  double wake_at_s = kNever;   // call decide() then, with kTimer; replaces the wake-up asked for before
};

// What a policy promises, for `scalai policies` and for the property tests.
struct PolicyTraits {
  bool preemptive = false;  // takes GPUs away from running jobs
  bool elastic = false;     // may give another number than asked for
  bool work_conserving =
      false;  // leaves no GPU idle that some waiting job of its would fit on (by its own rule of order)
  bool needs_durations = false;  // uses Job::work (known length)
  bool stochastic = false;       // draws random numbers (from its seed)
  bool heterogeneous = false;    // knows that GPU types differ in speed
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual PolicyTraits traits() const = 0;
  // Before the first decide(). Errors: the policy cannot serve this fleet (InvalidArgument, with what to change).
  virtual absl::Status begin(const View& /*view*/) { return absl::OkStatus(); }
  virtual absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) = 0;
  // One line for the end of a run: LP ties broken how, sub-problems solved, admissions refused … "" = nothing to say.
  virtual std::string remarks() const { return ""; }
};

}  // namespace scalai::sched
