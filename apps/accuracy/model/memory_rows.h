#pragma once
// Rows of memory, in GiB per GPU, or relative to the memory without sequence parallelism and recomputation.

#include <string>
#include <vector>

#include "apps/accuracy/model/results.h"
#include "apps/accuracy/model/training_run.h"

namespace scalai::parallel::validation {

// Kind "memory": `published` GiB. Kind "ratio": percent of the same run's memory without recomputation and sequence
// parallelism. `quantity`:
//   state        parameters, gradients and optimizer, the mean of all pipeline stages
//   activations  of the first stage's layers, all micro-batches in flight
RowResult memory_result(RowReader& row, const Models& models);
RowResult ratio_result(RowReader& row, const Models& models);
std::vector<std::string> memory_columns();

}  // namespace scalai::parallel::validation
