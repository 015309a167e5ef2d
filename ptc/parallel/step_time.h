#pragma once
// Seconds per training step of a configuration, behind an interface: scenarios may give the number, a model computes it.

#include "ptc/collection/layout_name.h"
#include "ptc/model/model.h"
#include "ptc/plan/cluster.h"

namespace scalai::parallel {

struct StepInput {
  const model::Model& model;
  const collection::ParallelConfig& config;
  const plan::GpuKind& gpu;
  int global_batch = 1;  // samples
  int micro_batch = 1;   // samples
  int sequence = 0;      // tokens a sample
};

class StepTimeModel {
 public:
  virtual ~StepTimeModel() = default;
  virtual double step_s(const StepInput& input) const = 0;
};

// The first model, for when nothing better is given:
//
//   t = F / (n · peak · efficiency) · (1 + (pp − 1) / (m · vpp)) · imbalance
//
//   F          model FLOPs of a step: (6 · active parameters + 12 · layers · hidden · sequence) · tokens   (PaLM, 2022)
//   m          micro-batches per pipeline: global_batch / (dp · micro_batch)
//   bubble     1F1B and interleaved schedules                                        (Narayanan et al., SC'21)
//   imbalance  largest stage over the mean stage, in layers
//
// Efficiency is 0.45 of the dense 16-bit peak, the middle of the 44 % to 52 % that Narayanan et al. publish for A100. Communication is inside
// that number. Convolutional models: 3 · 8.2 GFLOP a sample (ResNet-50 at 224 × 224).
class AnalyticStepTime : public StepTimeModel {
 public:
  static constexpr double kEfficiency = 0.45;
  double step_s(const StepInput& input) const override;
};

// Model FLOPs of one step (forward and backward, no recompute).
double model_flops(const StepInput& input);

}  // namespace scalai::parallel
