#include "executor/cuda/kernels/kernels.h"

#include "executor/cuda/kernels/cast_core.h"
#include "executor/cuda/kernels/content_core.h"
#include "executor/cuda/kernels/copy_core.h"
#include "executor/cuda/kernels/digest_core.h"

namespace scalai::executor::cuda::kernels {
namespace {
// Pieces and tiles as restricted pointers of the kernel itself: then the compiler knows that no store changes them, and
// reads them through the read-only cache.
#define SCALAI_KERNEL __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
#define SCALAI_SHIFT_KERNEL __global__ void __launch_bounds__(kThreads, kShiftBlocksPerSm)

SCALAI_KERNEL copy_kernel(const CopyPiece* __restrict__ pieces, const uint32_t* __restrict__ first_tile, uint32_t count,
                          uint32_t tiles) {
  copy_tiles({pieces, first_tile, count, tiles}, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
}
SCALAI_SHIFT_KERNEL shift_kernel(const CopyPiece* __restrict__ pieces, const uint32_t* __restrict__ first_tile,
                                 uint32_t count, uint32_t tiles) {
  shift_tiles({pieces, first_tile, count, tiles}, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
}
SCALAI_KERNEL cast_kernel(const CastPiece* __restrict__ pieces, const uint32_t* __restrict__ first_tile, uint32_t count,
                          uint32_t tiles) {
  cast_tiles({pieces, first_tile, count, tiles}, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
}
SCALAI_KERNEL fill_kernel(const ContentPiece* __restrict__ pieces, const uint32_t* __restrict__ first_tile,
                          uint32_t count, uint32_t tiles) {
  fill_tiles({pieces, first_tile, count, tiles}, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
}
SCALAI_KERNEL check_kernel(const ContentPiece* __restrict__ pieces, const uint32_t* __restrict__ first_tile,
                           uint32_t count, uint32_t tiles, CheckResult* results) {
  check_tiles({pieces, first_tile, count, tiles}, results, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
}
SCALAI_KERNEL digest_kernel(const DigestPiece* __restrict__ pieces, const uint32_t* __restrict__ first_tile,
                            uint32_t count, uint32_t tiles, uint64_t* sums) {
  digest_tiles({pieces, first_tile, count, tiles}, sums, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
}
}  // namespace

cudaError_t launch_copy(const Work<CopyPiece>& work, uint32_t blocks, cudaStream_t stream) {
  if (work.tiles == 0) return cudaSuccess;
  copy_kernel<<<blocks, kThreads, 0, stream>>>(work.pieces, work.first_tile, work.count, work.tiles);
  return cudaGetLastError();
}

cudaError_t launch_shift(const Work<CopyPiece>& work, uint32_t blocks, cudaStream_t stream) {
  if (work.tiles == 0) return cudaSuccess;
  shift_kernel<<<blocks, kThreads, 0, stream>>>(work.pieces, work.first_tile, work.count, work.tiles);
  return cudaGetLastError();
}

cudaError_t launch_cast(const Work<CastPiece>& work, uint32_t blocks, cudaStream_t stream) {
  if (work.tiles == 0) return cudaSuccess;
  cast_kernel<<<blocks, kThreads, 0, stream>>>(work.pieces, work.first_tile, work.count, work.tiles);
  return cudaGetLastError();
}

cudaError_t launch_fill(const Work<ContentPiece>& work, uint32_t blocks, cudaStream_t stream) {
  if (work.tiles == 0) return cudaSuccess;
  fill_kernel<<<blocks, kThreads, 0, stream>>>(work.pieces, work.first_tile, work.count, work.tiles);
  return cudaGetLastError();
}

cudaError_t launch_check(const Work<ContentPiece>& work, CheckResult* results, uint32_t blocks, cudaStream_t stream) {
  if (work.tiles == 0) return cudaSuccess;
  check_kernel<<<blocks, kThreads, 0, stream>>>(work.pieces, work.first_tile, work.count, work.tiles, results);
  return cudaGetLastError();
}

cudaError_t launch_digest(const Work<DigestPiece>& work, uint64_t* sums, uint32_t blocks, cudaStream_t stream) {
  if (work.tiles == 0) return cudaSuccess;
  digest_kernel<<<blocks, kThreads, 0, stream>>>(work.pieces, work.first_tile, work.count, work.tiles, sums);
  return cudaGetLastError();
}

}  // namespace scalai::executor::cuda::kernels
