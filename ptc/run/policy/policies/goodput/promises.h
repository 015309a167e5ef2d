#pragma once
// ElasticFlow's plans (ASPLOS'23, section 4): the GPUs of each job with a deadline over time, such that every admitted
// job ends in time. Pure functions of times, rates and free GPUs; elasticflow.h has the policy.

#include <optional>
#include <span>
#include <vector>

namespace scalai::policy {

// A possible number of GPUs of a job, with its rate. Levels of a job are sorted; both numbers grow.
struct Level {
  int gpus = 0;
  double per_s = 0;  // iterations per second
};

struct PlanSegment {
  double from_s = 0, to_s = 0;
  int gpus = 0;
};
using JobPlan = std::vector<PlanSegment>;  // by time, without gaps; begins at the time of planning

// Free GPUs from now on, as a step function of time; the last step lasts for ever. A value; steps() refers into it.
class FreeGpus {
 public:
  FreeGpus(double now_s, int gpus) : steps_{{now_s, gpus}} {}
  void take(const JobPlan& plan);
  int least() const;
  struct Step {
    double from_s;
    int gpus;
  };
  std::span<const Step> steps() const { return steps_; }

 private:
  void cut(double at_s);
  std::vector<Step> steps_;
};

struct PlanRequest {
  double work = 0;  // iterations left
  double deadline_s = 0;
  int gpus_now = 0;  // a change from this number stops the job for change_s
  double change_s = 0;
  std::span<const Level> levels;  // must outlive the request
};

// The minimum satisfactory share: the least level such that the job ends by its deadline with min(level, free GPUs)
// from the first step on. GPUs are held until the end of the slot of `slot_s` in which the job ends. nullopt: no level
// suffices.
std::optional<JobPlan> minimum_share(const PlanRequest& request, const FreeGpus& free, double slot_s);

// A plan with all free GPUs, for a job whose promise cannot be kept; its end may be late.
JobPlan best_share(const PlanRequest& request, const FreeGpus& free, double slot_s);

// End of the job if it follows the plan from `now_s`; infinity: not within the plan.
double plan_end(const PlanRequest& request, const JobPlan& plan, double now_s);

}  // namespace scalai::policy
