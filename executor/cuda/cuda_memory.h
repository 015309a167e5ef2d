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
// or a GPU without virtual memory management; other errors as in runtime.h. Chunks are for `memory_bytes` in all: 8 MiB
// each, smaller where that is more than 1/512. The driver takes 0.38 s for 8 GiB in chunks of 2 MiB, mapped and
// unmapped again, and 0.07 s in chunks of 8 MiB (H200, results/gpu); larger ones would free less of a state that goes
// piece by piece.
absl::StatusOr<std::unique_ptr<ChunkSource>> make_cuda_chunks(int gpu, std::span<const int> reached_by,
                                                              std::shared_ptr<AddressMap> addresses,
                                                              int64_t memory_bytes);

}  // namespace scalai::executor::cuda
