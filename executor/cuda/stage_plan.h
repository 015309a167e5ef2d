#pragma once
// How copies go through a buffer between two places that do not reach each other (host memory that is not pinned, GPUs
// without peer access): cut into parts, parts packed into chunks of the buffer's size, each part dense, in the type of
// the two that has fewer bytes. Pure functions: any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/device/backend.h"

namespace scalai::executor::cuda {

struct StagePart {
  size_t copy = 0;  // which of the batch
  Box part;
  DType wire = DType::kF32;
  int64_t offset = 0;  // in the chunk, a multiple of kStageAlign
};
using StageChunk = std::vector<StagePart>;
inline constexpr int64_t kStageAlign = 16;
inline constexpr int64_t kMinChunk = 1024;

// Disjoint boxes of at most so many elements (> 0), in row-major order, that cover the box: whole rows of the outermost
// dimensions, so that runs stay long.
std::vector<Box> cut_box(const Box& box, int64_t elements);

// The bytes a chunk should have, within [kMinChunk, room]: few copies are cut too, so that the two halves of the way
// overlap, but not into chunks whose launches would take longer than their bytes.
int64_t chunk_bytes_for(std::span<const BoxCopy> copies, int64_t room);

// Chunks of at most chunk_bytes (at least kMinChunk, CHECK), in the order of the batch. No part has more than a quarter
// of a chunk, so chunks are at least three quarters full but the last.
std::vector<StageChunk> plan_chunks(std::span<const BoxCopy> copies, int64_t chunk_bytes);

int64_t bytes_of(const StageChunk& chunk);  // of the buffer that the chunk uses
// The two halves of the way, for a chunk that lies at `stage`.
std::vector<BoxCopy> into_stage(std::span<const BoxCopy> copies, const StageChunk& chunk, std::byte* stage);
std::vector<BoxCopy> out_of_stage(std::span<const BoxCopy> copies, const StageChunk& chunk, const std::byte* stage);

}  // namespace scalai::executor::cuda
