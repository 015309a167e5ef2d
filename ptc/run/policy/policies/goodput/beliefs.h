#pragma once
// A goodput policy's knowledge of its jobs: their largest size so far and their speed on other GPUs. The speed comes
// from the throughput source (oracle), or from a step model fitted to the observed steps of the job (step_model.h). One
// thread.

#include <map>
#include <vector>

#include "ptc/run/policy/policies/goodput/goodput.h"
#include "ptc/run/policy/policies/goodput/step_model.h"
#include "ptc/run/policy/policy.h"

namespace scalai::policy {

class Beliefs {
 public:
  explicit Beliefs(bool fitted) : fitted_(fitted) {}

  // Observes every active job. Call it first at each decision; the view's throughput source must live until the next
  // call.
  void observe(const View& view);

  // The most GPUs the job has trained on; 0 = not trained yet.
  int scaled_to(JobId job) const { return of(job).scaled_to; }
  int scaled_to(JobId job, GpuType type) const;  // GPUs of one type
  // Goodput on this many hosts and GPUs of a type, in the job's own unit; 0 = cannot run. For a fitted job without
  // observations: the number of GPUs.
  double goodput(const View& view, JobId job, GpuType type, int hosts, int gpus) const;
  // Goodput on the most compact GPUs: on one host for a fitted model, on as few hosts as possible for the source.
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
  // With GPUs spread evenly over the hosts.
  static double source_goodput(const View& view, JobId job, GpuType type, int hosts, int gpus);

  bool fitted_;
  const GoodputSource* source_ = nullptr;  // of the last observe(); null = use the view's throughputs
  std::map<JobId, Belief> jobs_;
  mutable std::map<std::pair<const Application*, int>, std::vector<BatchCut>> cuts_;
};

}  // namespace scalai::policy
