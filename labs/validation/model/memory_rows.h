#pragma once
// Rows of memory, in GiB per GPU, or relative to the memory without sequence parallelism and recomputation.

#include <string>
#include <vector>

#include "labs/validation/model/results.h"
#include "labs/validation/model/training_run.h"

namespace scalai::step::validation {

// Kind "memory": `published` in `unit`, GiB or GB (10^9 B). Kind "ratio": percent of the same run's memory without
// recomputation and sequence parallelism. `quantity`:
//   state        parameters, gradients and optimizer, the mean of all pipeline stages
//   activations  of the first stage's layers, all micro-batches in flight
//   allocated    all that PyTorch's tensors take in the worst stage
//   reserved     also what its allocator holds beside them
//   peak         also the CUDA context and NCCL's buffers, as nvidia-smi counts
//   refused      likewise, of a run that did not fit `published`. Exact, and without error, where a layout that is
//                named would be refused: beyond the memory and the error of peaks (kMemoryError)
RowResult memory_result(RowReader& row, const Models& models);
RowResult ratio_result(RowReader& row, const Models& models);
std::vector<std::string> memory_columns();

}  // namespace scalai::step::validation
