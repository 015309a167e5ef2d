#pragma once
// How far one job has come, kept without a walk over running jobs: work at an anchor time and the rate since then.
// Checkpoints stop training for a while each `every_s` seconds of it; what was done after the last complete one can be
// lost.

#include "sim/jobs/engine.h"

namespace scalai::jobs::internal {

class Training {
 public:
  // Work done at `now_s`.
  double work(double now_s, const Checkpoints& checkpoints) const;
  // Trains at `per_s` iterations a second of training from now_s on; 0 = stands still.
  void set_rate(double now_s, double per_s, const Checkpoints& checkpoints);
  double rate() const { return per_s_; }
  // When so much work is done; kNever if it stands still.
  double time_of(double work, const Checkpoints& checkpoints) const;
  // The state is kept as it is now (a planned change), or what was done since the last checkpoint is gone; the job
  // stands still. Return the iterations lost.
  void save(double now_s, const Checkpoints& checkpoints);
  double lose(double now_s, const Checkpoints& checkpoints);
  // Takes back iterations a change lost.
  void drop(double iterations);
  // Rounding set right: at the time of the last call, exactly so much is done.
  void set_work(double work) { work_ = work; }

 private:
  void settle(double now_s, const Checkpoints& checkpoints);

  double at_s_ = 0;
  double work_ = 0;     // at at_s_
  double per_s_ = 0;    // iterations a second of training
  double phase_s_ = 0;  // at at_s_: seconds of training and writing since the last complete checkpoint
  double saved_ = 0;    // work in it
};

}  // namespace scalai::jobs::internal
