#pragma once
// A scheduler's model of a watched job: the seven-parameter model of a training step (Pollux, OSDI'21, section 3.2),
// fitted to the configurations that the job has run in, and the goodput that it predicts for others. Pure functions.
//
//   pass(m) = alpha_c + beta_c m             forward and backward on m samples a GPU
//   sync(K) = alpha + beta max(K - 2, 0)     alpha_n, beta_n over several hosts; alpha_r, beta_r on one
//   step    = (pass^gamma + sync^gamma)^(1/gamma)     gamma in [1, 10]: no overlap … full overlap
//
// Costs without an observation count as zero (a job that never ran on two GPUs scales perfectly), so the scheduler
// tries new configurations.

#include <cstdint>
#include <span>

#include "ptc/run/policy/policies/goodput/profiles.h"

namespace scalai::policy {

struct StepModel {
  double alpha_c = 0.1, beta_c = 0.01;
  double alpha_n = 0.1, beta_n = 0.01;
  double alpha_r = 0.1, beta_r = 0.01;
  double gamma = 1.001;

  double pass_s(double local) const { return alpha_c + beta_c * local; }
  double sync_s(int hosts, int gpus) const;
  double step_s(double local, int hosts, int gpus) const;
};

struct StepObservation {
  int hosts = 1, gpus = 1;
  int64_t local = 1;
  double pass_s = 0;  // the step without the exchange
  double step_s = 0;
};

// Minimises the sum of the root mean squared errors of log(pass) and log(step), plus 1e-3 (gamma − 1)² and 1e-2
// ((beta_n/alpha_n)² + (beta_r/alpha_r)²). Parameters without observations stay at 1e-8; with only one local batch
// alpha_c is half the pass; before a job has run on several hosts, they cost 1.1 times as much as one host (goodput.py
// of the authors). At least one observation.
StepModel fit_step_model(std::span<const StepObservation> seen);

// The objective of the fit, for tests.
double step_model_error(const StepModel& model, std::span<const StepObservation> seen);

// Progress per second at the best batch (goodput.h: adaptive_cuts) on `gpus` GPUs of `hosts` hosts; 0 if `cuts` is
// empty. `cuts`: those of this number of GPUs.
double believed_goodput(const StepModel& model, const GradientNoise& noise, int64_t initial_batch,
                        std::span<const BatchCut> cuts, int hosts, int gpus);

}  // namespace scalai::policy
