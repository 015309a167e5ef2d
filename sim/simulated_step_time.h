#pragma once
// Step times by simulated iterations: what the control loop asks where a scenario says `compute: SIMULATED`. Needs no
// SimGrid, so that the simulator, the executor and replay decide alike. One thread.

#include <map>
#include <string>
#include <vector>

#include "ptc/parallel/step_time_model.h"

namespace scalai::sim {

class SimulatedStepTime : public parallel::StepTimeModel {
 public:
  // Of each job while all train on one cluster; CHECK: the same cluster in all. Slow devices, degraded links and the
  // others' traffic count; infinity when a link that a job needs is down. Equal to step_time() where nothing contends,
  // up to what that leaves out (iteration.h). Answers are kept by shape: layouts, schedules, the parts of a step, how the
  // devices lie in hosts and leaves, links.
  std::vector<double> steps_s(std::span<const parallel::StepInput> together) const override;

  int64_t simulated() const { return simulated_; }  // calls that no kept answer served

 private:
  mutable std::map<std::string, std::vector<double>> known_;
  mutable int64_t simulated_ = 0;
};

}  // namespace scalai::sim
