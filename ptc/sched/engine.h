#pragma once
// The event loop of many jobs: submissions, completions, hosts that come and go, the policy's decisions, changes under
// way. Virtual time; steady training is skipped to the next event. Same setup and seed, same outcome, bit by bit. A
// cost per event of O(log n) plus what the policy and its decision take. One thread; setup's parts outlive the run.
//
//   Workload ─► submitted ─► [ Policy::decide ] ─► grants ─► placement on hosts ─► ChangeModel ─► training at
//   Throughput Availability ─► hosts up, noticed, taken, failed ──┘                                              │
//                                    Outcome ◄── JobRecord, UseSample ◄───────────────────────────────┘

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "ptc/sched/change.h"
#include "ptc/sched/fleet.h"
#include "ptc/sched/job.h"
#include "ptc/sched/outcome.h"
#include "ptc/sched/policy.h"
#include "ptc/sched/throughput.h"

namespace scalai::sched {

// What a failure costs besides the change: steps since the last checkpoint are run again.
struct Checkpoints {
  double every_s = 0;  // of training; 0 = a failed job loses nothing (its state survives elsewhere)
  double write_s = 0;  // training stands still so long for each
};

struct Options {
  double until_s = kNever;
  Checkpoints checkpoints;
  size_t samples = 4096;  // UseSamples kept
};

// Watches a run: partial results as they are final, progress. May be empty.
struct Watcher {
  std::function<void(const Job&, const JobRecord&)> ended;                      // a job's record is final
  std::function<void(double now_s, int64_t finished, int64_t total)> progress;  // now and then, and at the end
  // A job has these GPUs from now on (none: it gave them up or lost them; a job that ends gives its up), beside another
  // or alone. For tests and traces.
  std::function<void(double now_s, JobId job, const Placement& placement, JobId beside)> placed;
};

struct Setup {
  const Workload* workload = nullptr;
  const Fleet* fleet = nullptr;
  const Availability* availability = nullptr;  // null = all hosts up for ever
  const Throughput* throughput = nullptr;
  Policy* policy = nullptr;
  ChangeModel* changes = nullptr;
  Options options;
  Watcher watcher;
};

// At one instant: changes end, then jobs finish, then hosts come and go, then jobs are submitted, then the policy is
// asked, once, with all of it. A job that asks for more GPUs than are ever up of any type ends as kTooLarge when it is
// submitted; the policy never hears of it. Jobs that wait when nothing is left to happen are kUnfinished if one of them
// has no capacity to run on (hosts are gone), else the policy is at fault.
// A job loses all its GPUs when one of their hosts fails or is taken, and the training since its last checkpoint; after
// a planned change nothing. Two jobs that share GPUs run at Throughput::shared_rate while both train; each pays half.
// JobRecord::isolated_s is the time the job would have taken on a fixed fair share of the cluster (finish-time fairness
// is JCT over it: Themis, NSDI'20; Gavel, OSDI'20): work / (mean over GPU types, by the GPUs of each, of its rate on
// the GPUs it asked for) x max(1, n g / N), where g is the GPUs it asked for, and n jobs in the system and N GPUs up
// are means over its life.
//
// Errors: a workload, fleet or availability that does not hold together (InvalidArgument); a decision that breaks the
// rules of policy.h (Internal names the job and the host); the policy's own; a policy that leaves jobs waiting for ever
// although nothing more will happen (FailedPrecondition, names the first of them).
absl::StatusOr<Outcome> run(const Setup& setup);

}  // namespace scalai::sched
