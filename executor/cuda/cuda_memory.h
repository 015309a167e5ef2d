#pragma once
// The memory of a GPU in chunks, by CUDA's virtual memory management. This GPU and every GPU in `reached_by` read and
// write mapped chunks. The driver's functions are looked up at run time; nothing here links against the driver.

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "executor/cuda/address_map.h"
#include "executor/cuda/chunked_memory.h"

namespace scalai::executor::cuda {

// Registers the reserved range in `addresses` until the source dies. NotFound: no driver, one without these functions,
// or a GPU without virtual memory management; other errors as in runtime.h.
absl::StatusOr<std::unique_ptr<ChunkSource>> make_cuda_chunks(int gpu, std::span<const int> reached_by,
                                                              std::shared_ptr<AddressMap> addresses);

}  // namespace scalai::executor::cuda
