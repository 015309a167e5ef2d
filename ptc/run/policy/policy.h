#pragma once
// The interface of scheduler policies, and their view of the cluster. A policy decides which job has which GPUs. It is
// a deterministic function of its view and its seed: no clock, no threads. The caller (sim/jobs or ptc/run/control)
// calls decide() after all events of one instant, one call at a time; the policy answers with the changes. Jobs without
// a grant keep their GPUs.
//
// The caller guarantees, for any answer: no more GPUs than are up, no job on a device that is down, no unknown job. A
// decision that breaks these rules, or those of decision.h, ends the run with an error that names it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"
#include "ptc/run/policy/throughput.h"

namespace scalai::policy {

// Progress of a job at the instant of the decision.
struct Progress {
  double work_done = 0;       // iterations
  double attained_gpu_s = 0;  // GPUs × seconds held (training or changing)
  double executed_s = 0;      // seconds with GPUs
  double first_start_s = kNever;
  double last_change_s = 0;  // time of the last change of its GPUs; before the first: submission
  int restarts = 0;          // changes of GPUs after the first start
  Placement placement;       // now; empty = the job waits
  JobId beside;              // the job on the same GPUs; none = alone
  // Iterations per second if it trains without interruption until it ends, its rate changes (kRate) or its GPUs do. 0
  // if it does not train or may be held up: it writes checkpoints, or shares its GPUs or the fabric.
  double even_per_s = 0;
};

// The cluster and its jobs, for policies. The caller owns it. References and spans stay valid until decide() or begin()
// returns.
class View {
 public:
  virtual ~View() = default;
  virtual double now_s() const = 0;
  virtual const Fleet& fleet() const = 0;
  virtual int capacity(GpuType type) const = 0;  // GPUs up now and without notice
  virtual int capacity(HostId host) const = 0;   // the same of one host
  virtual double price(GpuType type) const = 0;  // US dollars per GPU and hour, now
  virtual const Job& job(JobId id) const = 0;
  virtual Progress progress(JobId id) const = 0;  // O(1)
  // Jobs that are submitted, admitted and not finished, by id. O(jobs) if they changed since the last call; policies
  // with O(log n) decisions keep their own ledger from the events.
  virtual std::span<const JobId> active() const = 0;
  virtual const Throughput& throughput() const = 0;
  // Expected seconds of a change of this job's GPUs (sim/jobs/change.h).
  virtual double change_cost_s(JobId id, int to_gpus) const = 0;
};

struct Event {
  enum class Kind : uint8_t {
    kSubmitted,
    kFinished,
    kLost,      // the job lost all its GPUs (a host failed or was taken); it waits
    kRate,      // the rate of a running job changed by itself (goodput)
    kCapacity,  // hosts came or went, a notice was given, or a price changed
    kTimer,     // the requested wake-up
  };
  Kind kind;
  JobId job;
};

// The GPUs of a job from now on. A grant equal to the present state changes nothing, except that a grant without hosts
// moves a job off hosts under notice, even to the same number of GPUs. If two jobs that share GPUs are both granted
// GPUs alone, the lower id stays.
struct Grant {
  JobId job;
  GpuType type;
  int gpus = 0;  // 0 = none: the job waits
  // Places, ascending; empty = the caller places (as few hosts as possible, best fit, the job's own hosts first).
  std::vector<HostShare> hosts;
  JobId beside;  // share the GPUs of this job, which is granted too or has the same number; none = alone
};

struct Decision {
  std::vector<Grant> grants;   // each job at most once, in any order (all are released before any is placed)
  std::vector<JobId> refused;  // not admitted: these jobs never run and leave the system
  double wake_at_s = kNever;   // time of the next decide() with kTimer; replaces the earlier wake-up
};

// Properties that a policy promises, for `scalai policies` and for the property tests.
struct PolicyTraits {
  bool preemptive = false;  // takes GPUs away from running jobs
  bool elastic = false;     // may give another number of GPUs than requested
  // Leaves no GPU idle that a waiting job would fit on (by the policy's own order).
  bool work_conserving = false;
  bool needs_durations = false;  // uses Job::work (known length)
  bool stochastic = false;       // draws random numbers (from its seed)
  bool heterogeneous = false;    // knows that GPU types differ in speed
  bool slices = false;           // serves jobs that ask for parts of GPUs
};

class AnswerLog;  // answer_log.h

class Policy {
 public:
  virtual ~Policy() = default;
  virtual PolicyTraits traits() const = 0;
  // Called at most once, before begin(): answers of what costs time in decide() go by the log, which outlives the
  // policy. All else is computed again where a run goes on. False: there are none, so that a run cannot go on from a
  // snapshot.
  virtual bool keep_answers(AnswerLog* /*log*/) { return false; }
  // Called once before the first decide(). InvalidArgument: the policy cannot serve this fleet; the message has the
  // remedy.
  virtual absl::Status begin(const View& /*view*/) { return absl::OkStatus(); }
  // `view` and `events` are valid during the call only.
  virtual absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) = 0;
  // One line for the end of a run (rule for LP ties, number of solved sub-problems, refused admissions …); "" =
  // nothing.
  virtual std::string remarks() const { return ""; }
};

}  // namespace scalai::policy
