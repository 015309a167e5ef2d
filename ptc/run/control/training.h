#pragma once
// Where training stands. A value; any thread.

#include <cstdint>

namespace scalai::control {

// Step from_step + k is done at start_s + k · step_s.
struct Training {
  double start_s = 0;
  int64_t from_step = 0;
  int64_t until_step = 0;
  double step_s = 0;
  int64_t more_samples = 0;  // of a step, than the job's global batch (SearchSpace::batch_tolerance); < 0 = fewer

  int64_t steps_done_at(double at_s) const;        // whole steps, capped at until_step
  int64_t next_boundary_after(double at_s) const;  // first step not finished before at_s
};

}  // namespace scalai::control
