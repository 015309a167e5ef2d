#pragma once
// The kernels' launchers: each puts one kernel into the stream and returns what the launch itself says
// (cudaGetLastError); errors of the run come with the stream. Internal to executor/cuda; compiled only with CUDA.
//
// All pointers are ones that the current device can read: the Work and what it points to stay as they are until the
// kernel has run. Memory that pieces name lies in allocations that begin and end at multiples of 16 bytes, as whole
// 16-byte granules of sources are read. A batch without tiles launches nothing. `blocks` is blocks_for(work.tiles, SMs)
// or anything from 1 on: the result is the same. Any thread.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "executor/cuda/kernels/batch.h"

namespace scalai::executor::kernels {

cudaError_t launch_copy(const Work<CopyPiece>& work, uint32_t blocks, cudaStream_t stream);  // CopyBatch::moves
cudaError_t launch_cast(const Work<CastPiece>& work, uint32_t blocks, cudaStream_t stream);  // CopyBatch::casts
cudaError_t launch_fill(const Work<ContentPiece>& work, uint32_t blocks, cudaStream_t stream);
// `results`: CheckBatch::results default CheckResults, to which this adds.
cudaError_t launch_check(const Work<ContentPiece>& work, CheckResult* results, uint32_t blocks, cudaStream_t stream);
// `sums`: a zero for each of DigestBatch::bytes, to which this adds; then digest_of_sum on the host.
cudaError_t launch_digest(const Work<DigestPiece>& work, uint64_t* sums, uint32_t blocks, cudaStream_t stream);

}  // namespace scalai::executor::kernels
