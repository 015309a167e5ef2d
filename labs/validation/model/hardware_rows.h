#pragma once
// Rows of measurements below a training step: collectives, one transformer layer, and one kernel.

#include <string>
#include <vector>

#include "labs/validation/model/results.h"
#include "labs/validation/model/training_run.h"

namespace scalai::step::validation {

// Kind "collective": `published` bus bandwidth in GB/s as defined by nccl-tests (all-reduce 2(n−1)/n · size / time, the
// others (n−1)/n · size / time), or the time if `unit` is us. `op`: all-reduce, reduce-scatter, all-gather, all-to-all.
// `in_switch` 0: NVLink switches that add up are not used. Errors are relative to the time.
RowResult collective_result(RowReader& row);
std::vector<std::string> collective_columns();

// Kind "layer": milliseconds of one micro-batch through one layer. `quantity`: forward, backward (including
// recomputation) or total.
RowResult layer_result(RowReader& row, const Models& models);
std::vector<std::string> layer_columns();

// Kind "kernel": microseconds of one kernel among others that wait for no host (ptc/cost/step/kernels.h). `op`:
//   product                                  count products of m × k by k × n, 16-bit or (precision=fp8) 8-bit operands
//   attention-forward, attention-backward    causal, fused: batch, length, heads, head_size
//   memory                                   reads and writes `size` in all
RowResult kernel_result(RowReader& row);
std::vector<std::string> kernel_columns();

}  // namespace scalai::step::validation
