#pragma once
// ElasticFlow's plans (ASPLOS'23, section 4): how many GPUs each job with a deadline gets until it ends, such that
// every one that was admitted ends in time. Pure functions of times, rates and free GPUs; the policy is in
// elasticflow.h.

#include <optional>
#include <span>
#include <vector>

namespace scalai::sched {

// A number of GPUs that a job may have. Levels of a job grow in both.
struct Level {
  int gpus = 0;
  double per_s = 0;  // iterations per second
};

struct PlanSegment {
  double from_s = 0, to_s = 0;
  int gpus = 0;
};
using JobPlan = std::vector<PlanSegment>;  // by time, without gaps; begins when it was made

// GPUs that are free from now on: steps of a function of time, the last one for ever.
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
  double work = 0;  // left
  double deadline_s = 0;
  int gpus_now = 0;  // a change from these stops the job for change_s
  double change_s = 0;
  std::span<const Level> levels;
};

// The minimum satisfactory share: the least level such that the job, with min(level, what is free) GPUs from the first
// step on, ends by its deadline; GPUs are held until the slot of `slot_s` in which it ends is over. nullopt: not even
// the highest does.
std::optional<JobPlan> minimum_share(const PlanRequest& request, const FreeGpus& free, double slot_s);

// With all that is free, whenever it ends: for jobs whose promise cannot be kept any more.
JobPlan best_share(const PlanRequest& request, const FreeGpus& free, double slot_s);

// When the job ends if it goes on by this plan from `now_s`; infinity: not within it.
double plan_end(const PlanRequest& request, const JobPlan& plan, double now_s);

}  // namespace scalai::sched
