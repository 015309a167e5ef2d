#pragma once
// The devices of a worker on GPUs: logical device d is on GPU d / devices_per_gpu. At most one CUDA back end per
// process. Without CUDA in the build, its creation returns an error. Thread rules of Backend.
//
// Memory comes in chunks (chunked_memory.h). A batch of copies is sorted by the places of both sides (routes.h):
//   GPU → same GPU, GPU with access to it, pinned memory    one kernel, directly from source to target
//   pageable memory ↔ GPU                                   through pinned memory, the CPU packs beside the kernel
//   GPU → GPU without access to it                          packed, copied, unpacked, in chunks
//   host → host                                             copy_box
// All buffers for this are allocated with the back end: later calls take no memory from the driver, but for the chunks
// of steps on the way (step_device.h), which the first call of steps_at makes.
//
// The call that waits for asynchronous work returns its errors, with the GPU's number. After a sticky error of CUDA (a
// fault of a kernel) everything on that GPU fails, and the worker must be given up.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "executor/device/backend.h"

namespace scalai::executor::cuda {

struct CudaOptions {
  int devices = 1;  // logical devices of this worker
  int devices_per_gpu = 1;
  int64_t staging_bytes = int64_t{64} << 20;  // pinned host memory per GPU, for pageable memory
  // For tests on one GPU: kernels access their own GPU only, and copies inside it use the path of GPUs without access.
  bool stage_all = false;
};

// NotFound: no driver, no GPU, too few GPUs, or built without CUDA; the message says what to do. ResourceExhausted: no
// memory for the buffers. InvalidArgument: an option that is not positive.
absl::StatusOr<std::unique_ptr<device::Backend>> make_cuda_backend(const CudaOptions& options);

}  // namespace scalai::executor::cuda
