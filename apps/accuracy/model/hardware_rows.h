#pragma once
// Rows of measurements below a training step: collectives, and one transformer layer.

#include <string>
#include <vector>

#include "apps/accuracy/model/results.h"
#include "apps/accuracy/model/training_run.h"

namespace scalai::parallel::validation {

// Kind "collective": `published` bus bandwidth in GB/s as defined by nccl-tests (all-reduce 2(n−1)/n · size / time, the
// others (n−1)/n · size / time), or the time if `unit` is us. `op`: all-reduce, reduce-scatter, all-gather, all-to-all.
// `in_switch` 0: NVLink switches that add up are not used. Errors are relative to the time.
RowResult collective_result(RowReader& row);
std::vector<std::string> collective_columns();

// Kind "layer": milliseconds of one micro-batch through one layer. `quantity`: forward, backward (including
// recomputation) or total.
RowResult layer_result(RowReader& row, const Models& models);
std::vector<std::string> layer_columns();

}  // namespace scalai::parallel::validation
