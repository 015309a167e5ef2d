#pragma once
// Training between changes: jobs start, stop at step boundaries, are credited with the steps they have done, and go on
// with another step time when others start or stop. One thread.

#include <cstdint>

#include "ptc/run/control/internal/condition.h"
#include "ptc/run/control/internal/jobs.h"
#include "ptc/run/control/internal/script.h"
#include "ptc/run/control/internal/step_times.h"
#include "ptc/run/control/internal/turn.h"

namespace scalai::control {

class Trainer {
 public:
  // All outlive this.
  Trainer(const Condition& condition, const Script& script, Jobs& jobs, const step::StepTimeModel& model, Turn& turn);

  // Trains from the step that is done until the next one at which something is due. `stall_s`: it begins so much later.
  void start(Job& job, double stall_s = 0);
  // Ends the step under way, then stops. A step that stands still is given up at once.
  void stop_at_boundary(Job& job);
  // Counts the steps of the running Train command up to `steps_done`, and has their samples read. Training ended at
  // `at_s`.
  void credit(Job& job, int64_t steps_done, double at_s);
  // Jobs whose steps now take another time end the step under way as it began and go on with the new time.
  void update_step_times();

 private:
  int64_t next_milestone(const Job& job) const;
  void train(const Job& job);
  void note_configuration(Job& job);

  const cluster::Cluster& cluster_;
  const Script& script_;
  Jobs& jobs_;
  Turn& turn_;
  StepTimes step_times_;
};

}  // namespace scalai::control
