#pragma once
// TrainingProgress: brings the jobs' training to where scenario time is. Real training keeps up with the clock, in
// parts of about a second; emulated training gets there when somebody looks. It owns what is known of the layout that a
// job trains in, and shows steps at which jobs rest to readers outside of the run. One thread: that of the runtime.

#include "executor/controller/internal/executions.h"

namespace scalai::executor::controller {

class TrainingProgress {
 public:
  // All outlive this object.
  TrainingProgress(RunState& run, Arrivals& arrivals, const Executions& executions)
      : run_(run), arrivals_(arrivals), executions_(executions), layouts_(run.jobs.size()) {}

  // The agenda's side of a Train command; the first one in a layout is told to ExecOptions::on_layout, if `tells`.
  // False where a device is dead: then the loss will be known soon.
  bool take_up(const control::Train& train, bool tells);
  void tell_layout(int job) const;
  // What the job trains next is a new layout, on devices that have all state.
  void note_commit(int job);
  // The job's live state at this step. Workers that are lost on the way, and trainers, are reported.
  absl::Status advance(int job, int64_t step);
  // Brings real training to where it stands in scenario time.
  absl::Status keep_up();
  // In scenario time; infinity where nothing is really trained.
  double end_of_part() const;
  // Gives readers outside of the run the live state of jobs that rest at a step, and takes back what they keep no more.
  absl::Status serve_live();

 private:
  struct Layout {
    bool is_new = true;         // the next Train is the first one in it
    int dp = 0;                 // of the layout that is trained; 0: none yet
    int64_t from_step = 0;      // at which it began
    bool copies_state = false;  // trainers train elsewhere, and copy their state at the end of each part
    int64_t part_steps = 1;     // of real training between two times when requests are received
  };
  Layout& layout(int job) { return layouts_[static_cast<size_t>(job)]; }
  const Layout& layout(int job) const { return layouts_[static_cast<size_t>(job)]; }
  void record(int job, const control::Train& train, const TrainerWork::Trained& trained);
  absl::Status serve(int job);

  RunState& run_;
  Arrivals& arrivals_;
  const Executions& executions_;
  std::vector<Layout> layouts_;  // by job
};

}  // namespace scalai::executor::controller
