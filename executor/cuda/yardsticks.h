#pragma once
// What CUDA's own copies need for the same bytes on a GPU, now. For `scalai exec bench`. Every function allocates its
// buffers, touches them, and returns the median over `repetitions` of wall time from the first call to the end of the
// work, as our own copies are timed. NotFound: no GPU, or built without CUDA.

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "executor/device/backend.h"

namespace scalai::executor::cuda {

// One cudaMemcpyAsync on the device.
absl::StatusOr<double> device_copy_seconds(int gpu, int64_t bytes, int repetitions);

// The copies as calls of cudaMemcpy2DAsync, one a box where the box is rows of equal distance on both sides, else one a
// row of its outer loops. Types must be the same on both sides (CHECK). They lie in memory of the GPU.
absl::StatusOr<double> memcpy_2d_seconds(int gpu, std::span<const BoxCopy> copies, int repetitions);

// The copies as one call of cudaMemcpyBatchAsync, an entry a contiguous run. OutOfRange: more than 2^20 runs, which no
// one would give it.
absl::StatusOr<double> memcpy_batch_seconds(int gpu, std::span<const BoxCopy> copies, int repetitions);

}  // namespace scalai::executor::cuda
