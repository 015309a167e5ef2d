#pragma once
// Launchers of the kernels of steps (ptc/state/transform/step_core.h): each submits one kernel to the stream and
// returns the error of the launch (cudaGetLastError); errors of the run come with the stream. Internal to
// executor/cuda; compiled with CUDA only. Any thread.
//
// The current device must be that of the stream, and reach the arrays, which live until the kernel has run. A work of
// no elements launches nothing. `blocks`: step_blocks, or any number from 1 on: the result is the same.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "executor/cuda/kernels/batch.h"
#include "ptc/state/transform/step_core.h"

namespace scalai::executor::cuda::kernels {

cudaError_t launch_step(const transform::step_core::Elements& work, uint32_t blocks, cudaStream_t stream);
cudaError_t launch_step(const transform::step_core::LowRank& work, uint32_t blocks, cudaStream_t stream);
// Adds to `peaks`, which are zeros or of other parts of the rows.
cudaError_t launch_step(const transform::step_core::RowPeaks& work, uint32_t blocks, cudaStream_t stream);
cudaError_t launch_step(const transform::step_core::RowCodes& work, uint32_t blocks, cudaStream_t stream);

// An element a thread, up to what runs at a time.
inline uint32_t step_blocks(int64_t elements, int multiprocessors) {
  const int64_t most = int64_t{multiprocessors} * kBlocksPerSm * 2;
  return static_cast<uint32_t>(std::clamp<int64_t>((elements + kThreads - 1) / kThreads, 1, most));
}

}  // namespace scalai::executor::cuda::kernels
