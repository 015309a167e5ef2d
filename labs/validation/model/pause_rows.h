#pragma once
// Rows of what a pause costs besides its bytes, in seconds (ptc/cost/change/setup.h).

#include <string>
#include <vector>

#include "labs/validation/model/results.h"
#include "labs/validation/model/training_run.h"

namespace scalai::step::validation {

// Kind "pause". Columns: `stack`, `gpus` (hosts of 8 unless `gpus_per_host`), `tp`, `pp`, and `quantity`:
//   initialisation  all communicators of the layout
//   communicator    the first one, over all GPUs
//   restart         processes and what they run in
RowResult pause_result(RowReader& row);
std::vector<std::string> pause_columns();

}  // namespace scalai::step::validation
