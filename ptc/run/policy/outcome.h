#pragma once
// The outcome of a run of many jobs (one record a job, the use of the cluster over time, sums), and of a recovery
// design. Plain data: sim/jobs fills it, ptc/report writes it.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"

namespace scalai::policy {

enum class JobEnd : uint8_t {
  kFinished,
  kRefused,
  kUnfinished,
  kTooLarge
};  // kTooLarge: requests more than the fleet has

struct JobRecord {
  JobId job;
  JobEnd end = JobEnd::kUnfinished;
  double first_start_s = kNever;
  double finish_s = kNever;
  double executed_s = 0;      // time with GPUs
  double attained_gpu_s = 0;  // GPUs × seconds held
  double changing_gpu_s = 0;  // part of attained_gpu_s in changes
  double lost_gpu_s = 0;      // part of attained_gpu_s in training whose work was lost
  double work_done = 0;
  int restarts = 0;       // changes of GPUs after the first start
  int preemptions = 0;    // times that the policy took all its GPUs
  int losses = 0;         // times that failures or takings took its GPUs
  double isolated_s = 0;  // time on a fixed fair share of the cluster (sim/jobs/engine.h); 0 = not finished, or unknown
  double cost = 0;        // US dollars of the GPUs held
  // Free GPUs × seconds from its submission to its first GPUs (or its end), on hosts up and not under notice; of these
  // the ones on hosts where less is free than min(GPUs it asks for, GPUs of the host). kNever: it never came, or jobs
  // have no places.
  double queue_free_gpu_s = kNever, queue_unusable_gpu_s = kNever;
};

struct UseSample {  // numbers of GPUs count as those of the fleet
  double at_s = 0;
  int up = 0;  // GPUs
  int training = 0;
  int changing = 0;
  int running_jobs = 0;
  int waiting_jobs = 0;
  int free = -1;      // GPUs, on hosts up and not under notice; -1: jobs have no places
  int scattered = 0;  // of these on hosts that are partly used
};

// Integrals of the GPUs that no job holds, on hosts up and not under notice.
struct FreeGpuTime {
  double gpu_s = 0;
  double scattered_gpu_s = 0;  // on hosts that are partly used
  // Absent where GPUs are cut in slices. Mean over the jobs of the workload, of the free GPUs on hosts where less is
  // free than min(GPUs the job asks for, GPUs of the host): the expected fragmentation of FGD (Weng et al., ATC'23)
  // with whole GPUs. Their jobs run on one host; one that asks for more than a host has counts here as one that wants
  // whole hosts.
  std::optional<double> unusable_gpu_s;
};

// The jobs and the time that the metrics of a run are of.
struct Window {
  size_t from_job = 0;  // by id, in [from_job, to_job)
  size_t to_job = std::numeric_limits<size_t>::max();
  double from_s = 0;     // use of the cluster counts from then on
  double to_s = kNever;  // and until then; kNever in Options: until the last of the jobs has ended
  bool run_on = false;   // the run goes on until all jobs are done, not only these
  bool holds(JobId id) const {
    return static_cast<size_t>(id.value) >= from_job && static_cast<size_t>(id.value) < to_job;
  }
};

struct Outcome {
  std::optional<Window> window;  // of the integrals below; to_job and to_s are what they came to be. Absent: all
  std::vector<JobRecord> jobs;   // by id
  std::vector<UseSample> use;    // at changes; every second one is dropped above Options::samples
  int64_t use_every = 1;         // of so many changes one is there
  int per_gpu = 1;               // of the fleet
  double end_s = 0;
  double up_gpu_s = 0, training_gpu_s = 0, changing_gpu_s = 0, lost_gpu_s = 0;  // integrals
  double cost = 0;                                                              // of all GPUs up, priced
  std::optional<FreeGpuTime> free;                                              // absent: jobs have no places
  int64_t events = 0, decisions = 0, changes = 0;                               // of the whole run
  std::string policy_remarks;
};

// ---- one job on hosts that come and go ------------------------------------------------------------------------------
// One phase of the job, from `from_s` to the start of the next phase (or the end).
struct RecoveryPhase {
  double from_s = 0;
  int live = 0;              // hosts up
  int used = 0;              // hosts in the job
  double samples_per_s = 0;  // 0 = the job does not train
};

struct RecoveryResult {
  // From the start of training to the end of the run.
  double from_s = 0, to_s = 0;
  double samples = 0;        // kept at the end
  double samples_per_s = 0;  // average from from_s to to_s
  int64_t steps = 0;
  double mean_hosts = 0;    // hosts up, average over time
  int losses = 0;           // hosts lost
  int restarts = 0;         // changes of hosts that stopped training, without the first start
  int fatal = 0;            // losses with a loss of state (back to a checkpoint), or with a rendezvous of all hosts
  double lost_samples = 0;  // computed and lost
  double ettr = 0;          // kept training time / (to_s - from_s)
  // GPU-hours of hosts up from the start to to_s; they add up to the time of these hosts. Published rules: a step that
  // ends during a rendezvous is training. Of an interrupted step the time before the rendezvous is lost, the rest
  // belongs to the change.
  double training_gpu_h = 0, lost_gpu_h = 0, changing_gpu_h = 0, checkpoint_gpu_h = 0, idle_gpu_h = 0;
  double usd = 0;                     // of all hosts up
  std::vector<RecoveryPhase> phases;  // at most 65,536, then every second one is dropped
};

}  // namespace scalai::policy
