#include "executor/exchange/message.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "executor/state/runs.h"
#include "ptc/base/status.h"

namespace scalai::executor::exchange {

using tensor::Box;

namespace {

constexpr int64_t kAlignment = 16;  // of parts on the wire: copies move 16 bytes at a time

// Slabs of at most so many elements, in row-major order.
void for_each_slab(const Box& box, int64_t elements, const std::function<void(const Box&)>& visit) {
  if (box.volume() <= elements) return visit(box);
  size_t dim = 0;
  while (box.extent(static_cast<int>(dim)) == 1) ++dim;
  const int64_t row = box.volume() / box.extent(static_cast<int>(dim));
  const int64_t rows = std::max<int64_t>(1, elements / row);
  Box slab = box;
  for (int64_t at = box.lo[dim]; at < box.hi[dim]; at += rows) {
    slab.lo[dim] = at;
    slab.hi[dim] = std::min(box.hi[dim], at + rows);
    for_each_slab(slab, elements, visit);
  }
}

// Calls visit(part in common, piece, where the box's part lies on the wire).
template <class Visit>
void for_each_held(std::span<const WireBox> message, const Chunk& chunk, Visit visit) {
  for (const ChunkPart& one : chunk.parts) {
    const WireBox& box = message[static_cast<size_t>(one.box)];
    for (const WireBox::Held& held : box.held) {
      const std::optional<Box> common = tensor::intersect(held.part, one.part);
      if (common) visit(*common, held, one, box.wire);
    }
  }
}

}  // namespace

std::vector<Chunk> cut(std::span<const WireBox> message, int64_t chunk_bytes) {
  SCALAI_CHECK(chunk_bytes >= kAlignment);
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < message.size(); ++i) {
    if (message[i].box.empty()) continue;
    const int64_t element = tensor::size_of(message[i].wire);
    for_each_slab(message[i].box, chunk_bytes / element, [&](const Box& slab) {
      const int64_t bytes = slab.volume() * element;
      const int64_t offset = chunks.empty() ? 0 : (chunks.back().bytes + kAlignment - 1) / kAlignment * kAlignment;
      if (chunks.empty() || offset + bytes > chunk_bytes) {
        chunks.push_back({{{static_cast<int32_t>(i), slab, 0}}, bytes});
        return;
      }
      chunks.back().parts.push_back({static_cast<int32_t>(i), slab, offset});
      chunks.back().bytes = offset + bytes;
    });
  }
  return chunks;
}

std::byte* dense_at(std::span<const WireBox> message, const Chunk& chunk) {
  if (chunk.parts.size() != 1) return nullptr;
  const ChunkPart& one = chunk.parts.front();
  const WireBox& box = message[static_cast<size_t>(one.box)];
  for (const WireBox::Held& held : box.held) {
    if (!held.part.contains(one.part) || held.at.dtype != box.wire) continue;
    const state::internal::Runs runs = state::internal::runs_of(one.part, held.at.box, one.part);
    return runs.loops == 0 ? held.at.data + runs.first_a * tensor::size_of(box.wire) : nullptr;
  }
  return nullptr;
}

void add_packing(std::span<const WireBox> message, const Chunk& chunk, std::byte* wire,
                 std::vector<device::BoxCopy>& batch) {
  for_each_held(message, chunk,
                [&](const Box& part, const WireBox::Held& held, const ChunkPart& one, tensor::DType type) {
                  batch.push_back({part, held.at.source(), {one.part, type, wire + one.offset}});
                });
}

void add_unpacking(std::span<const WireBox> message, const Chunk& chunk, const std::byte* wire,
                   std::vector<device::BoxCopy>& batch) {
  for_each_held(message, chunk,
                [&](const Box& part, const WireBox::Held& held, const ChunkPart& one, tensor::DType type) {
                  batch.push_back({part, {one.part, type, wire + one.offset}, held.at});
                });
}

}  // namespace scalai::executor::exchange
