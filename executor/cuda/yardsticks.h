#pragma once
// Seconds of CUDA's own copies for the same bytes on a GPU, for `scalai exec bench`. Every function allocates and
// touches its buffers, and returns the median over `repetitions` of the wall time from the first call to the end of the
// work, as for our own copies. Of more than 16,384 copies the first so many are timed, and count for all by bytes. One
// thread at a time. NotFound: no GPU, or built without CUDA.

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "executor/device/backend.h"

namespace scalai::executor::cuda {

// One cudaMemcpyAsync on the device.
absl::StatusOr<double> device_copy_seconds(int gpu, int64_t bytes, int repetitions);

// The copies by cudaMemcpy2DAsync: one call per box whose rows have equal distances on both sides, otherwise one call
// per row of its outer loops. Types must be equal on both sides (CHECK); all addresses are in memory of the GPU.
absl::StatusOr<double> memcpy_2d_seconds(int gpu, std::span<const device::BoxCopy> copies, int repetitions);

// The copies by one call of cudaMemcpyBatchAsync, one entry per contiguous run.
absl::StatusOr<double> memcpy_batch_seconds(int gpu, std::span<const device::BoxCopy> copies, int repetitions);

}  // namespace scalai::executor::cuda
