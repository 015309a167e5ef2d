#include "executor/cuda/kernels/steps.h"

namespace scalai::executor::cuda::kernels {
namespace {

template <class Work>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) step_kernel(const Work work) {
  transform::step_core::run(work, int64_t{blockIdx.x} * blockDim.x + threadIdx.x, int64_t{gridDim.x} * blockDim.x);
}

template <class Work>
cudaError_t launch(const Work& work, uint32_t blocks, cudaStream_t stream) {
  if (transform::step_core::size_of(work) == 0) return cudaSuccess;
  step_kernel<<<blocks, kThreads, 0, stream>>>(work);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_step(const transform::step_core::Elements& work, uint32_t blocks, cudaStream_t stream) {
  return launch(work, blocks, stream);
}
cudaError_t launch_step(const transform::step_core::LowRank& work, uint32_t blocks, cudaStream_t stream) {
  return launch(work, blocks, stream);
}
cudaError_t launch_step(const transform::step_core::RowPeaks& work, uint32_t blocks, cudaStream_t stream) {
  return launch(work, blocks, stream);
}
cudaError_t launch_step(const transform::step_core::RowCodes& work, uint32_t blocks, cudaStream_t stream) {
  return launch(work, blocks, stream);
}

}  // namespace scalai::executor::cuda::kernels
