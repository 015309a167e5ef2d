#pragma once
// What a goodput policy believes of its jobs: how far they have been scaled and how fast they would be elsewhere. By
// the throughput source (oracle), or by a step model fitted to what the job has shown so far (step_model.h). One
// thread.

#include <map>
#include <memory>
#include <vector>

#include "ptc/sched/policies/goodput/goodput.h"
#include "ptc/sched/policies/goodput/step_model.h"
#include "ptc/sched/policy.h"

namespace scalai::sched {

class Beliefs {
 public:
  explicit Beliefs(bool fitted) : fitted_(fitted) {}

  // Looks at every active job once; call it at each decision, before asking.
  void observe(const View& view);

  // The most GPUs the job has trained on; 0 = not trained yet.
  int scaled_to(JobId job) const { return of(job).scaled_to; }
  int scaled_to(JobId job, GpuType type) const;  // GPUs of one type
  // Goodput on so many hosts and GPUs of a type, in the job's own unit; 0 = cannot run. Of a job that is to be fitted
  // and has not been seen training: the number of GPUs.
  double goodput(const View& view, JobId job, GpuType type, int hosts, int gpus) const;
  // On GPUs that are as near to each other as can be: on one host by a fitted model, as few as they fit on by the
  // source.
  double near_goodput(const View& view, JobId job, GpuType type, int gpus) const;

 private:
  struct Belief {
    int scaled_to = 0;
    std::map<GpuType, int> by_type;
    std::vector<StepObservation> seen;
    StepModel model;
    GradientNoise noise;
  };
  static const Belief& none();
  const Belief& of(JobId job) const;
  void learn(const View& view, const GoodputSource& source, JobId job, const Progress& progress, Belief* belief);
  // With GPUs spread as evenly as can be.
  static double source_goodput(const View& view, JobId job, GpuType type, int hosts, int gpus);

  bool fitted_;
  const GoodputSource* source_ = nullptr;  // of the last observe(); null = judge by the throughputs
  std::map<JobId, Belief> jobs_;
  mutable std::map<std::pair<const Application*, int>, std::vector<BatchCut>> cuts_;
};

}  // namespace scalai::sched
