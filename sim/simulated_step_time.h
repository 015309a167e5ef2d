#pragma once
// Step times by simulated iterations, for scenarios with `compute: SIMULATED`. Independent of SimGrid, so that
// simulator, executor and replay decide alike. Owns a cache of results. One thread.

#include <map>
#include <string>
#include <vector>

#include "ptc/cost/step/step_time_model.h"

namespace scalai::sim {

class SimulatedStepTime : public step::StepTimeModel {
 public:
  // Seconds per step of each job while all of them train on one cluster (CHECK). Slow devices, degraded links and the
  // traffic of the other jobs count; infinity if a job needs a link that is down. Without contention equal to
  // step_time(), except for the parts that it leaves out (iteration.h). The cache key has layouts, schedules, parts of
  // a step, positions of the devices in hosts and leaves, and links.
  std::vector<double> steps_s(std::span<const step::StepInput> together) const override;

  int64_t simulated() const { return simulated_; }  // calls without a cached result

 private:
  mutable std::map<std::string, std::vector<double>> known_;
  mutable int64_t simulated_ = 0;
};

}  // namespace scalai::sim
