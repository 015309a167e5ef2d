#pragma once
// Units of published step times.

#include <string>
#include <vector>

#include "labs/validation/model/training_run.h"

namespace scalai::step::validation {

// All but seconds, days and GPU-hours are rates.
//   s                        seconds per step
//   tokens_s_gpu, samples_s  tokens per second and GPU; samples per second
//   tflops_*, pflops_*       TFLOP/s per GPU, PFLOP/s of all GPUs: _model, _hardware (with recomputation), _causal
//                            (model, without the masked half of attention), _6pt (6 · active parameters · tokens)
//   mfu_*_pct, hfu_pct       share of the products' peak: mfu_pct of model FLOPs, mfu_causal_pct of those of _causal
//   days, gpu_hours          of the whole training
std::vector<std::string> step_units();
// CHECK: a unit of step_units().
double step_seconds(double value, const std::string& unit, const TrainingRun& run);
double in_unit(double step_s, const std::string& unit, const TrainingRun& run);

// Seconds of a step if all GPUs worked at their peak: by model FLOPs, and by hardware FLOPs (with recomputation).
double model_peak_seconds(const TrainingRun& run);
double hardware_peak_seconds(const TrainingRun& run);

}  // namespace scalai::step::validation
