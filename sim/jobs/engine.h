#pragma once
// The event loop of many jobs: submissions, completions, hosts that come and go, decisions of the policy, changes of
// GPUs. Virtual time; steady training is skipped to the next event. Equal setup and seed give equal outcomes, bit for
// bit. An event costs O(log n) plus the policy and its decision. One thread.
//
//   Workload ─► submitted ─► [ Policy::decide ] ─► grants ─► placement on hosts ─► ChangeModel ─► training at
//   Throughput Availability ─► hosts up, noticed, taken, failed ──┘                                              │
//                                    Outcome ◄── JobRecord, UseSample ◄───────────────────────────────┘

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"
#include "ptc/run/policy/outcome.h"
#include "ptc/run/policy/policy.h"
#include "ptc/run/policy/throughput.h"
#include "sim/jobs/change.h"

namespace scalai::jobs {

// Cost of a failure besides the change: steps since the last checkpoint are run again.
struct Checkpoints {
  double every_s = 0;  // seconds of training; 0 = a failed job loses nothing (its state survives elsewhere)
  double write_s = 0;  // training stops for this long for each checkpoint
};

struct Options {
  double until_s = policy::kNever;
  Checkpoints checkpoints;
  size_t samples = 4096;                 // UseSamples to keep
  std::optional<policy::Window> window;  // absent: all jobs and the whole run count
};

// Callbacks of a run, called by its thread; each may be empty. Arguments are valid during the call.
struct Watcher {
  std::function<void(double now_s, const policy::Job&, const policy::JobRecord&)> ended;  // a job's record is final
  std::function<void(double now_s, int64_t finished, int64_t total)> progress;  // now and then, and at the end
  // The GPUs of a job from now on, alone or beside another job; an empty placement: it gave them up or lost them. For
  // tests and traces.
  std::function<void(double now_s, policy::JobId job, const policy::Placement& placement, policy::JobId beside)> placed;
  std::function<void(double now_s, policy::JobId job)> training;  // it trains on the GPUs it has: its change is over
};

// The parts of a run; all but `availability` must be set (CHECK). All outlive run().
struct Setup {
  const policy::Workload* workload = nullptr;
  const policy::Fleet* fleet = nullptr;
  const policy::Availability* availability = nullptr;  // null = all hosts are always up
  const policy::Throughput* throughput = nullptr;
  policy::Policy* policy = nullptr;
  ChangeModel* changes = nullptr;
  Options options;
  Watcher watcher;
};

// Runs the workload to its end, to options.until_s, or until the jobs of options.window have ended and its time is over
// (unless it says run_on).
//
// Order at one instant: changes end, jobs finish, hosts come and go, jobs are submitted, then one call of the policy
// with all of these events. A job that asks for more GPUs of one type than are ever up ends as kTooLarge at its
// submission; the policy never sees it. When no event is left, waiting jobs are kUnfinished if one of them has no
// capacity to run on (hosts are gone); otherwise it is an error of the policy.
//
// A job loses all its GPUs when one of their hosts fails or is taken, and the training since its last checkpoint; a
// planned change loses nothing. Two jobs that share GPUs run at Throughput::shared_rate while both train; each pays
// half.
//
// JobRecord::isolated_s is the time of the job on a fixed fair share of the cluster; finish-time fairness is JCT over
// it (Themis, NSDI'20; Gavel, OSDI'20):
//   isolated_s = work / (mean over GPU types, weighted by their GPUs, of the job's rate on g GPUs) x max(1, n g / N)
// with g the GPUs it asked for, n jobs in the system and N GPUs up; n and N are means over the job's life.
//
// Errors: an inconsistent workload, fleet, availability or window (InvalidArgument, up to 20 problems); a decision that
// breaks the rules of ptc/run/policy/policy.h (Internal, names the job and the host); errors of the policy and the
// change model; a policy that leaves jobs waiting for ever although nothing more will happen (FailedPrecondition, names
// the first job).
absl::StatusOr<policy::Outcome> run(const Setup& setup);

}  // namespace scalai::jobs
