#pragma once
// The kernels' input: boxes as plain descriptors ("pieces"), and each batch of pieces cut into tiles of about equal
// bytes, so that one launch handles thousands of boxes and every block of the grid gets the same work. Host code
// without CUDA; the kernels read the same structs.
//
//   boxes ──► make_…_batch ──► Pieces (host) ──► write_upload ──► device memory ──► Work ──► launch_… (kernels.h)
//
// Nothing here accesses the memory of the boxes. Pure functions; any thread.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "executor/cuda/kernels/fast_division.h"
#include "executor/device/backend.h"

namespace scalai::executor::cuda::kernels {

// --- the grid --------------------------------------------------------------------------------------------------------
inline constexpr uint32_t kThreads = 256;    // of a block
inline constexpr uint32_t kBlocksPerSm = 4;  // with at most 64 registers a thread (65536 in an SM)
// Of copies at any alignment, with at most 40 registers a thread: they hold little and wait for memory.
inline constexpr uint32_t kShiftBlocksPerSm = 6;
inline constexpr uint32_t kTileBytes = 32768;  // at most, of written bytes (of read bytes if nothing is written)
inline constexpr uint32_t kTileUnits = 8192;   // at most: small units take longer than their bytes

inline constexpr uint32_t kCopyTileBytes = 16384;  // the same of copies without a change of type

// Blocks of a launch: as many as run at a time, or one per tile if there are fewer. Each takes every blocks-th tile.
// Copies have a block for each tile instead: the GPU then starts one while others wait for memory (results/gpu).
uint32_t blocks_for(uint32_t tiles, int multiprocessors);

// --- pieces ----------------------------------------------------------------------------------------------------------
inline constexpr uint32_t kMaxLoops = tensor::kMaxRank - 1;  // the last dimension is in the run
inline constexpr uint32_t kMaxRows = 1u << 30;               // of a piece; larger parts are several pieces

// The rows of a piece: runs contiguous in two arrays a and b, and loops over them. Innermost loop first; unused loops
// have step 0.
struct Nest {
  int64_t step_a[kMaxLoops] = {};
  int64_t step_b[kMaxLoops] = {};
  FastDivision count[kMaxLoops - 1];  // the outermost loop has no count: it takes the rest
  uint32_t loops = 0;
  uint32_t rows = 1;
};

// Cut of rows into tiles: a tile is some whole rows, or a segment of one row.
struct Cut {
  uint32_t rows_per_tile = 1;  // 1 when a row has several tiles
  uint32_t segment = 0;        // units of a row in a tile; the last segment of a row may have fewer
  FastDivision tiles_per_row;  // 1 when a tile has whole rows
  FastDivision units_per_row;  // divides inside a tile; gives 0 if a row has several tiles
  uint64_t row_units = 0;      // units of a row
};

// Ways to move bytes.
enum class Move : uint32_t {
  kUnits1,  // units of this number of bytes; both sides and all steps are aligned to it
  kUnits2,
  kUnits4,
  kUnits8,
  kUnits16,
  kShift  // any alignment: a unit is a 16-byte granule of the destination that a row touches
};

// Steps are in bytes. `src` null: writes zeros. kShift reads whole 16-byte granules with at least one byte of the
// source, and no others; it writes nothing but the row.
struct alignas(16) CopyPiece {
  const std::byte* src = nullptr;
  std::byte* dst = nullptr;
  Nest nest;  // a: src, b: dst
  Cut cut;
  uint64_t run = 0;  // bytes
  Move move = Move::kUnits1;
};

// Elements with a change of type; a unit has `vector` of them: 4 if both sides are aligned to four elements of their
// type, 1, or 0 for single elements at unaligned addresses. Steps are in bytes.
struct alignas(16) CastPiece {
  const std::byte* src = nullptr;
  std::byte* dst = nullptr;
  Nest nest;  // a: src, b: dst
  Cut cut;
  uint32_t unit_src = 0;  // bytes of a unit
  uint32_t unit_dst = 0;
  tensor::DType from = tensor::DType::kF32;
  tensor::DType to = tensor::DType::kF32;
  uint32_t vector = 1;
};

// Elements with verifiable content. A unit has `vector` elements: 16 bytes of them, or 1 and 0 as above. Fill writes to
// `data`. Check only reads, 16 bytes of elements at a time, at any address, and fewer at the end of a row.
struct alignas(16) ContentPiece {
  std::byte* data = nullptr;
  int64_t index = 0;  // global index of the first element
  Nest nest;          // a: index in elements, b: bytes in memory
  Cut cut;
  uint64_t run = 0;   // elements
  uint64_t seed = 0;  // of key and step (executor/state/content_mix.h)
  tensor::DType dtype = tensor::DType::kF32;
  tensor::DType via = tensor::DType::kF32;  // `dtype` if the content has none
  uint32_t vector = 1;
  uint32_t result = 0;  // index of its CheckResult
};

// Leaves of the digest (executor/state/digest.h) of a part; a unit is a leaf. Reads whole granules as kShift does.
struct alignas(16) DigestPiece {
  const std::byte* src = nullptr;
  Nest nest;  // a: bytes in src; b: unused
  uint64_t run = 0;
  FastDivision run_division;  // by run, if the part has at most kMaxDividend bytes
  uint64_t bytes = 0;         // of the whole part
  uint64_t leaves = 0;
  uint32_t result = 0;  // index of its sum
};

// The wrong elements of one check: their number and least global index. Initialised as here.
struct CheckResult {
  uint64_t wrong = 0;
  uint64_t first = std::numeric_limits<uint64_t>::max();
};

// --- how a part is cut (make_…_batch does it) ------------------------------------------------------------------------
// Rows of `row_units` units each, as tiles of at most `tile_bytes` and kTileUnits.
struct Tiling {
  Cut cut;
  uint64_t tiles = 0;
};
Tiling tiling_of(uint64_t row_units, uint32_t rows, uint32_t unit_bytes, uint32_t tile_bytes = kTileBytes);
// The best way for runs of this number of bytes; `alignment` (1, 2, … 16) divides all addresses and the run.
Move move_of(uint32_t alignment, uint64_t run);

// --- batches ---------------------------------------------------------------------------------------------------------
// Piece i has the tiles first_tile[i] … first_tile[i + 1] − 1.
template <class Piece>
struct Pieces {
  std::vector<Piece> pieces;
  std::vector<uint32_t> first_tile = {0};
  bool empty() const { return pieces.empty(); }
  uint32_t tiles() const { return first_tile.back(); }
};

// A batch in memory that a kernel can read.
template <class Piece>
struct Work {
  const Piece* pieces = nullptr;
  const uint32_t* first_tile = nullptr;
  uint32_t count = 0;
  uint32_t tiles = 0;
};

// Elements to set to zero.
struct BoxZero {
  tensor::Box part;
  state::Target dst;
};

// Each list is for one kernel; all may be empty.
struct CopyBatch {
  Pieces<CopyPiece> moves;   // units
  Pieces<CopyPiece> shifts;  // Move::kShift
  Pieces<CastPiece> casts;
};
struct CheckBatch {
  Pieces<ContentPiece> pieces;
  size_t results = 0;  // one per check
};
struct DigestBatch {
  Pieces<DigestPiece> pieces;
  std::vector<uint64_t> bytes;  // one per box, for digest_of_sum
};

// Batches refer to the memory of the boxes. CHECK: the rules of copy_box and fill_box (executor/state), and fewer than
// 2^31 tiles. Memory read by one batch is not written by it. Empty parts make no piece.
CopyBatch make_copy_batch(std::span<const device::BoxCopy> copies, std::span<const BoxZero> zeros = {});
Pieces<ContentPiece> make_fill_batch(std::span<const device::BoxFill> fills);
CheckBatch make_check_batch(std::span<const device::BoxCheck> checks);
// CHECK also: a part has at most kMaxRows rows that are not contiguous.
DigestBatch make_hash_batch(std::span<const device::BoxHash> boxes);

// --- results ---------------------------------------------------------------------------------------------------------
// The one-element box at a global index, and its address in `src`: used to read the least wrong element of a check.
// With these bytes check_box (executor/state/content.h) gives the Mismatch.
tensor::Box element_box(const tensor::Shape& shape, int64_t index);
const std::byte* element_address(const state::Source& src, const tensor::Box& element);

// box_digest from the sum of the leaves.
uint64_t digest_of_sum(uint64_t sum, uint64_t bytes);

// --- upload ----------------------------------------------------------------------------------------------------------
// Pieces and then first tiles in one array of bytes. It must lie at a multiple of 16; its size is a multiple of 16, so
// that several batches can follow each other.
template <class Piece>
size_t upload_bytes(const Pieces<Piece>& batch) {
  const size_t tiles = batch.first_tile.size() * sizeof(uint32_t);
  return batch.pieces.size() * sizeof(Piece) + (tiles + 15) / 16 * 16;
}
template <class Piece>
void write_upload(const Pieces<Piece>& batch, std::byte* to) {
  const size_t pieces = batch.pieces.size() * sizeof(Piece);
  if (pieces > 0) std::memcpy(to, batch.pieces.data(), pieces);
  std::memcpy(to + pieces, batch.first_tile.data(), batch.first_tile.size() * sizeof(uint32_t));
}
// The batch when these bytes lie at `at`, an address of the device, which is not read here. Valid as long as that
// memory.
template <class Piece>
Work<Piece> work_at(const Pieces<Piece>& batch, const std::byte* at) {
  const std::byte* tiles = at + batch.pieces.size() * sizeof(Piece);
  return {reinterpret_cast<const Piece*>(at), reinterpret_cast<const uint32_t*>(tiles),
          static_cast<uint32_t>(batch.pieces.size()), batch.tiles()};
}

}  // namespace scalai::executor::cuda::kernels
