#pragma once
// The memory of a GPU in chunks, by CUDA's virtual memory management: every GPU in `reached_by`, and this one, reads and
// writes what is mapped. The driver's functions are looked up when the source is made; nothing here links against it.

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "executor/cuda/address_map.h"
#include "executor/cuda/chunked_memory.h"

namespace scalai::executor::cuda {

// `addresses` learns the range that is reserved, until the source dies. Errors: NotFound (no driver, or one without
// these functions; a GPU without virtual memory management), as in runtime.h.
absl::StatusOr<std::unique_ptr<ChunkSource>> make_cuda_chunks(int gpu, std::span<const int> reached_by,
                                                              std::shared_ptr<AddressMap> addresses);

}  // namespace scalai::executor::cuda
