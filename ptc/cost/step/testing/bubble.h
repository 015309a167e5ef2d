#pragma once
// The closed form of pipeline bubbles, for tests of orders, step times and simulated steps.

#include "ptc/cost/step/schedule.h"

namespace scalai::step {

// Idle time of a stage in a step / its working time, with equal stages and no communication:
// (pp − 1)/m for GPipe and 1F1B, (pp − 1)/(m·vpp) interleaved (Narayanan et al., SC'21, 2.2; pp divides m), 0 for 2BW.
inline double bubble_fraction(const PipelineShape& shape) {
  if (shape.schedule == Schedule::kTwoBW) return 0;
  return (shape.pp - 1.0) / (static_cast<double>(shape.micro_batches) * shape.vpp);
}

}  // namespace scalai::step
