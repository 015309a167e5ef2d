#pragma once
// Copies: the copies and checkpoints of the jobs: those that the control loop asks for, and the one that real training
// leaves of its last step. It owns the checkpoints under way, and knows what to do where one fails.
//
//   make ──► agenda ──► happen(CopyEnd): BackgroundDone, or due ──► collect: BackgroundDone when its files are there
//     └──► CopyLost: it could not be made, and is tried again when one is due
//
// The control loop knows nothing of the last one, so plans and events do not depend on it. One thread: that of the
// runtime.

#include "executor/controller/internal/training_progress.h"

namespace scalai::executor::controller {

class Copies {
 public:
  // All outlive this object. Says where there will be no checkpoint of a last step, though it is wanted.
  Copies(RunState& run, Arrivals& arrivals, Executions& executions, TrainingProgress& training);

  absl::Status make(const control::Background& background);
  absl::Status happen(const control::Agenda::CopyEnd& end);
  // Reports the checkpoints that are due and whose files are there.
  absl::Status collect();
  bool any_due() const;
  // With late_checkpoints: until those under way are there, where training comes to a step at which one is due.
  absl::Status wait_before(const control::Agenda::TrainEnd& end);
  absl::Status forget(const control::Forget& forget);

  // The checkpoint of the step at which a job ends. Tries again until it is written, unless the job loses a device.
  absl::Status keep_last(int job);
  // Whether the run would end now under a job whose state is in no checkpoint.
  bool any_cut_short() const;
  // The run ends: what was begun is completed, even if its modelled end is not over.
  absl::Status end();

 private:
  // A checkpoint of real training whose files workers write.
  struct Copy {
    control::Background command;
    bool due = false;  // its modelled end is over
  };
  struct Job {
    std::vector<Copy> copies;
    int64_t failed_step = -1;  // of the last copy that could not be made
    double pause_s = 0;        // before that is reported, if that step is tried again
    bool told_late = false;    // that training waits for checkpoints
  };
  Job& of(int job) { return jobs_[static_cast<size_t>(job)]; }
  absl::Status give_up(const control::Background& background, const absl::Status& why);
  bool has_storage() const { return run_.scenario.cluster.storage_read_bytes_per_s > 0; }
  bool keeps_last(int job) const;
  bool is_cut_short(int job) const;
  absl::Status keep_cut_short(int job);

  RunState& run_;
  Arrivals& arrivals_;
  Executions& executions_;
  TrainingProgress& training_;
  std::vector<Job> jobs_;
};

}  // namespace scalai::executor::controller
