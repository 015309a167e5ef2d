#pragma once
// Messages between two GPUs of different workers, cut into chunks. Both ends cut for themselves and come to the same
// chunks, because those depend on boxes and types only. Pure functions: any thread.
//
//   boxes of a message ──► cut ──► chunk 0, 1, 2 …   each at most so many bytes, its parts at offsets of 16
//
// Where a part lies is each end's own business: where it is dense, the wire takes it from there or puts it there;
// else it is packed, or unpacked, by one batch of copies.

#include <cstdint>
#include <span>
#include <vector>

#include "executor/device/backend.h"

namespace scalai::executor {

// One box of a message, in the type in which it travels, and where its parts lie here (one piece in most cases).
struct WireBox {
  Box box;
  DType wire = DType::kF32;
  struct Held {
    Box part;
    Target at;
  };
  std::vector<Held> held;
};

struct ChunkPart {
  int32_t box = 0;     // index in the message
  Box part;            // of it: dense and row-major on the wire
  int64_t offset = 0;  // in the chunk
};
struct Chunk {
  std::vector<ChunkPart> parts;
  int64_t bytes = 0;
};

// Boxes in order; larger ones are cut into slabs of rows. chunk_bytes >= 16 (CHECK). A message without elements has no
// chunk.
std::vector<Chunk> cut(std::span<const WireBox> message, int64_t chunk_bytes);

// The bytes of a chunk where they lie, when it is one part that is dense in one piece, in the type of the wire; else null.
std::byte* dense_at(std::span<const WireBox> message, const Chunk& chunk);
// From where its parts lie to `wire`, or back.
void add_packing(std::span<const WireBox> message, const Chunk& chunk, std::byte* wire, std::vector<BoxCopy>& batch);
void add_unpacking(std::span<const WireBox> message, const Chunk& chunk, const std::byte* wire,
                   std::vector<BoxCopy>& batch);

}  // namespace scalai::executor
