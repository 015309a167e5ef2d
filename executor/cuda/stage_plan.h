#pragma once
// Plan of copies through a buffer between two places without direct access (pageable host memory, GPUs without peer
// access): boxes are cut into parts, and parts are packed into chunks of the buffer's size, each part dense, in the
// smaller of the two types. Pure functions; any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/device/backend.h"

namespace scalai::executor::cuda {

struct StagePart {
  size_t copy = 0;  // index in the batch
  tensor::Box part;
  tensor::DType wire = tensor::DType::kF32;
  int64_t offset = 0;  // in the chunk, a multiple of kStageAlign
};
using StageChunk = std::vector<StagePart>;
inline constexpr int64_t kStageAlign = 16;
inline constexpr int64_t kMinChunk = 1024;

// Disjoint boxes of at most `elements` (> 0) elements, in row-major order, that cover the box: whole rows of the
// outermost dimensions, so that contiguous runs stay long.
std::vector<tensor::Box> cut_box(const tensor::Box& box, int64_t elements);

// Chunk size in bytes, within [kMinChunk, room]. Small batches are cut, too, so that the two halves of the copy
// overlap, but not into chunks whose launches would take longer than their bytes.
int64_t chunk_bytes_for(std::span<const device::BoxCopy> copies, int64_t room);

// Chunks of at most chunk_bytes (at least kMinChunk, CHECK), in the order of the batch. A part has at most a quarter of
// a chunk, so all chunks but the last are at least three quarters full.
std::vector<StageChunk> plan_chunks(std::span<const device::BoxCopy> copies, int64_t chunk_bytes);

int64_t bytes_of(const StageChunk& chunk);  // used bytes of the buffer
// The two halves of a chunk's copy through the buffer at `stage`. The results refer to the memory of `copies` and
// `stage`.
std::vector<device::BoxCopy> into_stage(std::span<const device::BoxCopy> copies, const StageChunk& chunk,
                                        std::byte* stage);
std::vector<device::BoxCopy> out_of_stage(std::span<const device::BoxCopy> copies, const StageChunk& chunk,
                                          const std::byte* stage);

}  // namespace scalai::executor::cuda
