#pragma once
// The devices of a worker on GPUs: logical device d lies on GPU d / devices_per_gpu. There is one CUDA back end in a
// process; where this was built without CUDA, making it says so.
//
// Memory comes in chunks (chunked_memory.h). A batch of copies is sorted by where both sides lie (routes.h):
//   GPU → the same GPU, a GPU that reaches it, pinned memory    one kernel, straight from source to target
//   pageable memory ↔ GPU                                       through pinned memory, the CPU packing beside the kernel
//   GPU → a GPU that does not reach it                          packed, copied over, unpacked, in chunks
//   host → host                                                 copy_box
// All buffers for that are made with the back end: later calls take no memory from the driver.
//
// Errors of asynchronous work come out of the call that waits for it, and name the GPU. After one that CUDA calls sticky
// (a fault of a kernel) everything on that GPU fails: the worker is to be given up.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "executor/device/backend.h"

namespace scalai::executor::cuda {

struct CudaOptions {
  int devices = 1;  // of this worker, logical
  int devices_per_gpu = 1;
  int64_t staging_bytes = int64_t{64} << 20;  // pinned host memory for each GPU, for what is not pinned
  // For tests on one GPU: kernels reach their own GPU only, and copies inside it go the way of GPUs that do not reach
  // each other.
  bool stage_all = false;
};

// NotFound: no driver, no GPU, too few of them, or built without CUDA; with what to do. ResourceExhausted: no room for
// the buffers. InvalidArgument: options that are no positive numbers.
absl::StatusOr<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options);

}  // namespace scalai::executor::cuda
