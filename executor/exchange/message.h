#pragma once
// Messages between two GPUs of different workers, cut into chunks. Both ends cut independently and get equal chunks,
// because these depend only on boxes and types. Pure functions; any thread.
//
//   boxes of a message ──► cut ──► chunk 0, 1, 2 …   at most chunk_bytes each, parts at multiples of 16 bytes
//
// The local layout of a part is private to each end: a dense part is sent or received in place, any other part is
// packed or unpacked by one batch of copies.

#include <cstdint>
#include <span>
#include <vector>

#include "executor/device/backend.h"

namespace scalai::executor::exchange {

// One box of a message, in its type on the wire, and its local parts (usually one). Targets refer to memory that
// outlives the box.
struct WireBox {
  tensor::Box box;
  tensor::DType wire = tensor::DType::kF32;
  struct Held {
    tensor::Box part;
    state::Target at;
  };
  std::vector<Held> held;
};

struct ChunkPart {
  int32_t box = 0;     // index in the message
  tensor::Box part;    // dense and row-major on the wire
  int64_t offset = 0;  // in the chunk, bytes
};
struct Chunk {
  std::vector<ChunkPart> parts;
  int64_t bytes = 0;
};

// Boxes in order; larger ones are cut into slabs of rows. chunk_bytes >= 16 (CHECK). No elements: no chunks.
std::vector<Chunk> cut(std::span<const WireBox> message, int64_t chunk_bytes);

// Address of a chunk that is one part, dense in one piece, and in the type of the wire; otherwise null.
std::byte* dense_at(std::span<const WireBox> message, const Chunk& chunk);
// Appends the copies from the local parts to `wire`, or from `wire` to the local parts. They refer to that memory.
void add_packing(std::span<const WireBox> message, const Chunk& chunk, std::byte* wire,
                 std::vector<device::BoxCopy>& batch);
void add_unpacking(std::span<const WireBox> message, const Chunk& chunk, const std::byte* wire,
                   std::vector<device::BoxCopy>& batch);

}  // namespace scalai::executor::exchange
