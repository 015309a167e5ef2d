#pragma once
// Published memory, in GiB a GPU or as a share of the memory without sequence parallelism and recomputation.

#include <string>
#include <vector>

#include "ptc/parallel/validation/results.h"
#include "ptc/parallel/validation/training_run.h"

namespace scalai::parallel::validation {

// Kind "memory": `published` GiB. Kind "ratio": percent of what the same run takes with nothing recomputed and without
// sequence parallelism. `quantity`:
//   state        parameters, gradients and optimizer, the mean of all pipeline stages
//   activations  of the first stage's layers, all micro-batches in flight
RowResult memory_result(RowReader& row, const Models& models);
RowResult ratio_result(RowReader& row, const Models& models);
std::vector<std::string> memory_columns();

}  // namespace scalai::parallel::validation
