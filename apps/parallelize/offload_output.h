#pragma once
// `scalai parallelize --offload`: host traffic of a step by stage. Pure functions.

#include <string>
#include <vector>

#include "ptc/base/screen.h"
#include "ptc/base/table.h"
#include "ptc/parallel/offload.h"

namespace scalai::apps {

// Stages that agree in everything are one row. `config` and `micro_batches` are those of the step.
std::string offload_text(const std::vector<parallel::OffloadedStep>& steps, int64_t device_bytes,
                         const std::string& config, int micro_batches, const Screen& screen);
// A row a stage, bytes without units.
Table offload_table(const std::vector<parallel::OffloadedStep>& steps);

}  // namespace scalai::apps
