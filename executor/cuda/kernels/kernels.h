#pragma once
// Launchers of the kernels: each submits one kernel to the stream and returns the error of the launch
// (cudaGetLastError); errors of the run come with the stream. Internal to executor/cuda; compiled with CUDA only. Any
// thread.
//
// The current device must be able to read all pointers. The Work and its arrays must live until the kernel has run.
// Memory of pieces lies in allocations that begin and end at multiples of 16 bytes, because whole 16-byte granules of
// sources are read. A batch without tiles launches nothing. `blocks` is work.tiles for copies, blocks_for(work.tiles,
// SMs) for the others, or any number from 1 on: the result is the same.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "executor/cuda/kernels/batch.h"

namespace scalai::executor::cuda::kernels {

cudaError_t launch_copy(const Work<CopyPiece>& work, uint32_t blocks, cudaStream_t stream);   // CopyBatch::moves
cudaError_t launch_shift(const Work<CopyPiece>& work, uint32_t blocks, cudaStream_t stream);  // CopyBatch::shifts
cudaError_t launch_cast(const Work<CastPiece>& work, uint32_t blocks, cudaStream_t stream);   // CopyBatch::casts
cudaError_t launch_fill(const Work<ContentPiece>& work, uint32_t blocks, cudaStream_t stream);
// `results`: CheckBatch::results default CheckResults; the kernel adds to them.
cudaError_t launch_check(const Work<ContentPiece>& work, CheckResult* results, uint32_t blocks, cudaStream_t stream);
// `sums`: one zero per entry of DigestBatch::bytes; the kernel adds to them, then digest_of_sum runs on the host.
cudaError_t launch_digest(const Work<DigestPiece>& work, uint64_t* sums, uint32_t blocks, cudaStream_t stream);

}  // namespace scalai::executor::cuda::kernels
