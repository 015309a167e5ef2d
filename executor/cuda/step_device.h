#pragma once
// Steps over tensors (ptc/state/transform/device.h) on a GPU. A chunk is a stream with a buffer of pinned host memory
// and one of the GPU's, both of `chunk_bytes`; a pair has two. The first pair is made with the device, others when
// threads want them; where the GPU has no room for more, threads wait for those there are. Without CUDA in the build,
// creation returns an error.
//
// Errors of kernels come out of Chunk::finish, with the GPU's number. Thread rules of transform::Device.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ptc/state/transform/device.h"

namespace scalai::executor::cuda {

class AddressMap;

struct StepDeviceOptions {
  int gpu = 0;
  int64_t chunk_bytes = int64_t{16} << 20;
  int pairs = 4;                            // at most, each of two chunks
  std::shared_ptr<AddressMap> addresses{};  // gets the GPU's buffers; null: nobody asks where they are
};

// NotFound: no driver, no GPU of this number, or built without CUDA; the message says what to do. ResourceExhausted: no
// memory for two chunks. InvalidArgument: sizes that are not positive.
absl::StatusOr<std::shared_ptr<transform::Device>> make_step_device(const StepDeviceOptions& options);

}  // namespace scalai::executor::cuda
