#pragma once
// Published measurements of less than a training step: collectives, and one transformer layer.

#include <string>
#include <vector>

#include "ptc/parallel/validation/results.h"
#include "ptc/parallel/validation/training_run.h"

namespace scalai::parallel::validation {

// Kind "collective": `published` bus bandwidth in GB/s as nccl-tests defines it (all-reduce 2(n−1)/n · size / time, the others
// (n−1)/n · size / time), or `unit` us: the time. `op`: all-reduce, reduce-scatter, all-gather, all-to-all. `in_switch` 0:
// NVLink switches that add up are not used. Errors are of the time.
RowResult collective_result(RowReader& row);
std::vector<std::string> collective_columns();

// Kind "layer": milliseconds of one micro-batch through one layer. `quantity`: forward, backward (with what is computed
// again) or total.
RowResult layer_result(RowReader& row, const Models& models);
std::vector<std::string> layer_columns();

}  // namespace scalai::parallel::validation
