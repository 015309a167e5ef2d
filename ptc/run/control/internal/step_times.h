#pragma once
// Seconds a step of all jobs that train at the same time: they may slow each other. Asks the step-time model again only
// when a job that trains, its configuration, or the condition of a device or link has changed. One thread.

#include <map>
#include <string>

#include "ptc/cost/step/step_time_model.h"
#include "ptc/run/control/internal/condition.h"
#include "ptc/run/control/internal/jobs.h"

namespace scalai::control {

class StepTimes {
 public:
  // All outlive this.
  StepTimes(const Condition& condition, const Jobs& jobs, const step::StepTimeModel& model);

  // After a change of the jobs that train, or of the condition.
  void update();
  // Of a job that trained at the last update; infinity: it stands still on a link that is down.
  double of(const Job& job) const { return seconds_.at(job.index); }

 private:
  const Condition& condition_;
  const Jobs& jobs_;
  const step::StepTimeModel& model_;
  std::string key_;                // which jobs train, where and how, when seconds_ were computed
  std::map<int, double> seconds_;  // by job
};

// How the job trains in its present configuration.
const step::Training& training_of(const Job& job);

}  // namespace scalai::control
