#include "executor/cuda/stage_plan.h"

#include <algorithm>
#include <string>

#include "ptc/base/round_up.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {

using device::BoxCopy;
using tensor::Box;

namespace {
constexpr int64_t kGoodChunk = int64_t{1} << 20;  // from here on a chunk's launch is small beside its bytes
constexpr int64_t kOverlapped = 8;                // chunks that a batch should have

tensor::DType wire_of(const BoxCopy& copy) {
  return tensor::size_of(copy.dst.dtype) < tensor::size_of(copy.src.dtype) ? copy.dst.dtype : copy.src.dtype;
}

int64_t bytes_of(const StagePart& part) {
  return round_up(part.part.volume() * tensor::size_of(part.wire), kStageAlign);
}

void cut(const Box& box, int64_t elements, std::vector<Box>& parts) {
  const int64_t volume = box.volume();
  if (volume <= elements) {
    if (volume > 0) parts.push_back(box);
    return;
  }
  size_t dim = 0;
  while (box.hi[dim] - box.lo[dim] == 1) ++dim;
  const int64_t rows = box.hi[dim] - box.lo[dim];
  const int64_t step = std::max<int64_t>(1, elements / (volume / rows));
  for (int64_t row = box.lo[dim]; row < box.hi[dim]; row += step) {
    Box part = box;
    part.lo[dim] = row;
    part.hi[dim] = std::min(box.hi[dim], row + step);
    cut(part, elements, parts);
  }
}
}  // namespace

std::vector<Box> cut_box(const Box& box, int64_t elements) {
  SCALAI_CHECK(elements > 0, std::to_string(elements));
  std::vector<Box> parts;
  cut(box, elements, parts);
  return parts;
}

int64_t chunk_bytes_for(std::span<const BoxCopy> copies, int64_t room) {
  int64_t total = 0;
  for (const BoxCopy& copy : copies)
    total += round_up(copy.part.volume() * tensor::size_of(wire_of(copy)), kStageAlign);
  const int64_t wanted = std::max(kGoodChunk, round_up(total / kOverlapped, kStageAlign));
  return std::max(kMinChunk, std::min(room, wanted));
}

std::vector<StageChunk> plan_chunks(std::span<const BoxCopy> copies, int64_t chunk_bytes) {
  SCALAI_CHECK(chunk_bytes >= kMinChunk, std::to_string(chunk_bytes));
  const int64_t part_bytes = chunk_bytes / 4 / kStageAlign * kStageAlign;
  std::vector<StageChunk> chunks;
  int64_t used = chunk_bytes;  // of the last chunk
  for (size_t i = 0; i < copies.size(); ++i) {
    const tensor::DType wire = wire_of(copies[i]);
    for (const Box& box : cut_box(copies[i].part, part_bytes / tensor::size_of(wire))) {
      StagePart part{.copy = i, .part = box, .wire = wire};
      const int64_t bytes = bytes_of(part);
      if (used + bytes > chunk_bytes) {
        chunks.emplace_back();
        used = 0;
      }
      part.offset = used;
      used += bytes;
      chunks.back().push_back(part);
    }
  }
  return chunks;
}

int64_t bytes_of(const StageChunk& chunk) { return chunk.empty() ? 0 : chunk.back().offset + bytes_of(chunk.back()); }

std::vector<BoxCopy> into_stage(std::span<const BoxCopy> copies, const StageChunk& chunk, std::byte* stage) {
  std::vector<BoxCopy> halves;
  halves.reserve(chunk.size());
  for (const StagePart& part : chunk) {
    halves.push_back({part.part, copies[part.copy].src, {part.part, part.wire, stage + part.offset}});
  }
  return halves;
}

std::vector<BoxCopy> out_of_stage(std::span<const BoxCopy> copies, const StageChunk& chunk, const std::byte* stage) {
  std::vector<BoxCopy> halves;
  halves.reserve(chunk.size());
  for (const StagePart& part : chunk) {
    halves.push_back({part.part, {part.part, part.wire, stage + part.offset}, copies[part.copy].dst});
  }
  return halves;
}

}  // namespace scalai::executor::cuda
