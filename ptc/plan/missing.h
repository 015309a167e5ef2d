#pragma once
// State that nobody has, in words. Any thread may call.

#include <string>
#include <vector>

#include "ptc/plan/plan.h"

namespace scalai::plan {

int64_t missing_bytes(const Plan& plan);  // as the old collection held them

// What `plan.missing()` is, one line each: up to `most_boxes` boxes by tensor and box; of more a summary by layers and
// kind of state, like "layers 12 to 23: 1440 boxes of param, master, exp_avg and exp_avg_sq, 8.46 GB, the first of them
// tensor \"layers.12.norm.weight\" [0:2048]". Empty if nothing is missing.
std::vector<std::string> missing_lines(const Plan& plan, size_t most_boxes);

}  // namespace scalai::plan
