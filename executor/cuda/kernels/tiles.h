#pragma once
// The distribution of work: from the tile of a block to the units of a thread. Identical on host and GPU. A kernel uses
// no shared memory and no barrier; each warp finds its tiles by itself.

#include <cstdint>

#include "executor/cuda/kernels/batch.h"
#include "executor/cuda/kernels/memory_access.h"
#include "ptc/state/tensor/host_device.h"

namespace scalai::executor::cuda::kernels {

// --- tile to piece ---------------------------------------------------------------------------------------------------
// Candidates for the piece of a tile: lo has the tile or begins before it, hi begins after it.
struct Candidates {
  uint32_t lo;
  uint32_t hi;
};
inline constexpr uint32_t kLanes = 32;  // threads of a warp; this number of candidates is tested together

SCALAI_HOST_DEVICE inline uint32_t probe_step(Candidates range) { return (range.hi - range.lo + kLanes - 1) / kLanes; }
// True if the candidate of `lane` begins at or before the tile. True for the first lanes only.
SCALAI_HOST_DEVICE inline bool probe(const uint32_t* first_tile, Candidates range, uint32_t lane, uint32_t tile) {
  const uint32_t at = range.lo + (lane + 1) * probe_step(range);
  return at < range.hi && first_tile[at] <= tile;
}
SCALAI_HOST_DEVICE inline Candidates narrowed(Candidates range, uint32_t votes) {
  const uint32_t step = probe_step(range);
  const uint32_t lo = range.lo + votes * step;
  return {lo, lo + step < range.hi ? lo + step : range.hi};
}

// Number of lanes of this warp with a true probe.
SCALAI_HOST_DEVICE inline uint32_t votes_of(const uint32_t* first_tile, Candidates range, uint32_t tile) {
#if defined(__CUDA_ARCH__)
  return __popc(__ballot_sync(0xffffffffu, probe(first_tile, range, threadIdx.x & (kLanes - 1), tile)));
#else
  uint32_t votes = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) votes += probe(first_tile, range, lane, tile) ? 1 : 0;
  return votes;
#endif
}

// The piece of the tile; it is `from` or a later one. Each round leaves one candidate in 32: three rounds for 32 768
// pieces.
SCALAI_HOST_DEVICE inline uint32_t piece_of_tile(const uint32_t* first_tile, uint32_t from, uint32_t count,
                                                 uint32_t tile) {
  if (tile < first_tile[from + 1]) return from;
  Candidates range{from + 1, count};
  while (range.hi - range.lo > 1) range = narrowed(range, votes_of(first_tile, range, tile));
  return range.lo;
}

// Calls visit(piece, tile within the piece) for each tile of a block.
template <class Piece, class Visit>
SCALAI_HOST_DEVICE inline void for_each_tile(const Work<Piece>& work, uint32_t block, uint32_t blocks, Visit visit) {
  uint32_t at = 0;
  for (uint32_t tile = block; tile < work.tiles; tile += blocks) {
    at = piece_of_tile(work.first_tile, at, work.count, tile);
    visit(work.pieces[at], tile - work.first_tile[at]);
  }
}

// --- tile to rows ----------------------------------------------------------------------------------------------------
// Whole rows from `row` on, or units of one row from `first` on; `units` in total.
struct Span {
  uint32_t row;
  uint32_t rows;
  uint64_t first;
  uint32_t units;
};
SCALAI_HOST_DEVICE inline Span span_of(const Cut& cut, uint32_t rows, uint32_t tile) {
  if (cut.tiles_per_row.divisor > 1) {
    const uint32_t row = cut.tiles_per_row.quotient(tile);
    const uint64_t first = uint64_t{tile - row * cut.tiles_per_row.divisor} * cut.segment;
    const uint64_t left = cut.row_units - first;
    return {row, 1, first, left < cut.segment ? static_cast<uint32_t>(left) : cut.segment};
  }
  const uint32_t row = tile * cut.rows_per_tile;
  const uint32_t left = rows - row;
  const uint32_t n = left < cut.rows_per_tile ? left : cut.rows_per_tile;
  return {row, n, 0, n * static_cast<uint32_t>(cut.row_units)};
}

struct Offsets {
  int64_t a;
  int64_t b;
};
// One loop is the common case. More loops stay a loop here, too, so that their numbers stay in the cache: in registers
// they would leave too few for the data.
SCALAI_HOST_DEVICE inline Offsets offsets_of(const Nest& nest, uint32_t row) {
  if (nest.loops <= 1) return {row * nest.step_a[0], row * nest.step_b[0]};
  Offsets at{0, 0};
  const uint32_t last = nest.loops - 1;
  SCALAI_NO_UNROLL
  for (uint32_t i = 0; i < last; ++i) {
    const uint32_t outer = nest.count[i].quotient(row);
    const uint32_t index = row - outer * nest.count[i].divisor;
    at.a += index * nest.step_a[i];
    at.b += index * nest.step_b[i];
    row = outer;
  }
  return {at.a + row * nest.step_a[last], at.b + row * nest.step_b[last]};
}

// --- units to threads ------------------------------------------------------------------------------------------------
// The place of a unit, and its number in the row.
struct Place {
  int64_t a = 0;
  int64_t b = 0;
  uint64_t unit = 0;
};

SCALAI_HOST_DEVICE inline Place place_of(Offsets row, Offsets step, uint64_t unit) {
  const auto steps = static_cast<int64_t>(unit);
  return {row.a + steps * step.a, row.b + steps * step.b, unit};
}

template <uint32_t kCount>
struct Group {
  static constexpr uint32_t kSize = kCount;
  Place place[kCount];
  bool here[kCount];  // true if there is an i-th unit
};

// Calls body(group) for the units of a thread, kCount at a time so that their loads overlap. Neighbouring units of a
// row are `step` apart.
template <uint32_t kCount, class Piece, class Body>
SCALAI_HOST_DEVICE inline void for_each_group(const Piece& piece, const Span& span, uint32_t thread, uint32_t threads,
                                              Offsets step, Body body) {
  for (uint32_t u = thread; u < span.units; u += kCount * threads) {
    Group<kCount> group;
    SCALAI_UNROLL
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint32_t unit = u + i * threads;
      group.here[i] = unit < span.units;
      const uint32_t row = piece.cut.units_per_row.quotient(unit);
      const Offsets at = offsets_of(piece.nest, span.row + row);
      const uint64_t in_row = span.first + unit - row * piece.cut.units_per_row.divisor;
      group.place[i] = place_of(at, step, in_row);
    }
    body(group);
  }
}
// The same for a span of one row, without divisions.
template <uint32_t kCount, class Piece, class Body>
SCALAI_HOST_DEVICE inline void for_each_group_in_row(const Piece& piece, const Span& span, uint32_t thread,
                                                     uint32_t threads, Offsets step, Body body) {
  const Offsets row = offsets_of(piece.nest, span.row);
  for (uint32_t u = thread; u < span.units; u += kCount * threads) {
    Group<kCount> group;
    SCALAI_UNROLL
    for (uint32_t i = 0; i < kCount; ++i) {
      group.here[i] = u + i * threads < span.units;
      group.place[i] = place_of(row, step, span.first + u + i * threads);
    }
    body(group);
  }
}

}  // namespace scalai::executor::cuda::kernels
