#pragma once
// What a run of many jobs leaves: a record a job, the use of the cluster over time, and sums. Plain data; report.h
// writes it.

#include <cstdint>
#include <string>
#include <vector>

#include "ptc/sched/fleet.h"
#include "ptc/sched/job.h"

namespace scalai::sched {

enum class JobEnd : uint8_t {
  kFinished,
  kRefused,
  kUnfinished,
  kTooLarge
};  // kTooLarge: asks for more than the fleet has

struct JobRecord {
  JobId job;
  JobEnd end = JobEnd::kUnfinished;
  double first_start_s = kNever;
  double finish_s = kNever;
  double executed_s = 0;      // with GPUs
  double attained_gpu_s = 0;  // GPUs x seconds held
  double changing_gpu_s = 0;  // of those, in changes
  double lost_gpu_s = 0;      // training done again: attained while doing work that was lost
  double work_done = 0;
  int restarts = 0;       // changes of GPUs after the first start
  int preemptions = 0;    // lost all GPUs to the policy
  int losses = 0;         // lost GPUs to failures or takings
  double isolated_s = 0;  // on a fixed fair share of the cluster (engine.h); 0 = not finished, or not known
  double cost = 0;        // US dollars of the GPUs it held
};

struct UseSample {
  double at_s = 0;
  int up = 0;  // GPUs
  int training = 0;
  int changing = 0;
  int running_jobs = 0;
  int waiting_jobs = 0;
};

struct Outcome {
  std::vector<JobRecord> jobs;  // by id
  std::vector<UseSample> use;   // at changes, thinned out to at most Options::samples
  double end_s = 0;
  double up_gpu_s = 0, training_gpu_s = 0, changing_gpu_s = 0, lost_gpu_s = 0;  // integrals
  double cost = 0;                                                              // of all GPUs up, priced
  int64_t events = 0, decisions = 0, changes = 0;
  std::string policy_remarks;
};

}  // namespace scalai::sched
