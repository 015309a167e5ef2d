#pragma once
// Takeover: a run goes on after an earlier controller (ExecOptions::resume). It finds the workers and trainers that
// have outlived that one, tells the control loop of those that have not, and begins its executions again. It owns the
// hosts that it has not judged yet. Without an earlier controller it does nothing. One thread: that of the runtime.

#include "executor/controller/internal/training_progress.h"

namespace scalai::executor::controller {

class Takeover {
 public:
  // All outlive this object.
  Takeover(RunState& run, Arrivals& arrivals, Executions& executions, const TrainingProgress& training)
      : run_(run), arrivals_(arrivals), executions_(executions), training_(training), is_due_(run.options.resume) {}

  // Whether workers have not been looked for yet.
  bool is_due() const { return is_due_; }
  // Before anything is done on workers: finds those that are there, and the trainers. Trainers that the earlier
  // controller had sent on have gone on. Where its last commands are still to be repeated, a job may have to wait for
  // the commit of the epoch that its workers hold.
  absl::Status find();
  // Workers that did not come back, or came back as new ones, are lost. Before anything has happened, nothing can be.
  absl::Status judge_workers();
  // The executions that the earlier controller has left, when all its commands are repeated.
  absl::Status begin_again();

 private:
  absl::Status find_workers();
  absl::Status find_trainers(RunState::Job& job);
  bool holds_state(const proto::Hello& hello, HostId host) const;

  RunState& run_;
  Arrivals& arrivals_;
  Executions& executions_;
  const TrainingProgress& training_;
  bool is_due_;
  std::set<HostId> unjudged_;  // hosts that should have workers, perhaps with state
  bool to_begin_again_ = false;
};

}  // namespace scalai::executor::controller
