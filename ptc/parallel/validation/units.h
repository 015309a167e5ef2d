#pragma once
// Units in which the length of a training step is published.

#include <string>
#include <vector>

#include "ptc/parallel/validation/training_run.h"

namespace scalai::parallel::validation {

// All but seconds, days and GPU-hours are rates.
//   s                        seconds a step
//   tokens_s_gpu, samples_s  tokens a second and GPU; samples a second
//   tflops_*, pflops_*       TFLOP/s a GPU, PFLOP/s of all: _model, _hardware (with what is computed again), _causal (model,
//                            the masked half of attention not counted), _6pt (6 · active parameters · tokens)
//   mfu_pct, hfu_pct         share of the products' peak
//   days, gpu_hours          of the whole training
std::vector<std::string> step_units();
// CHECK: a unit of those.
double step_seconds(double value, const std::string& unit, const TrainingRun& run);
double in_unit(double step_s, const std::string& unit, const TrainingRun& run);

// Seconds that a step would take if all GPUs worked at their peak: model FLOPs, and with what is computed again.
double model_peak_seconds(const TrainingRun& run);
double hardware_peak_seconds(const TrainingRun& run);

}  // namespace scalai::parallel::validation
