#pragma once
// Measures a back end on copy works: the copies as one batch, then the time of checks. The rows are Measurements
// (measurement.h) of one device:
//
//   qkv merge llama3-8b     copies; state and moved: bytes copied; bus: read and written
//   … check                 every element against its closed form
//   … digest                box_digest of every new piece
//
// Yardsticks: CUDA's own copies on a GPU, memcpy on the host. One thread.

#include <vector>

#include "absl/status/statusor.h"
#include "executor/bench/copy_work.h"
#include "executor/bench/measurement.h"

namespace scalai::executor::bench {

// repetitions >= 1 (CHECK), after one uncounted warm-up. Errors: those of the back end. ResourceExhausted: the work
// does not fit on the device.
absl::StatusOr<std::vector<Measurement>> measure_copies(device::Backend& backend, const CopyWork& work,
                                                        int repetitions);

}  // namespace scalai::executor::bench
