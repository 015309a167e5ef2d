#include "executor/cuda/kernels/batch.h"

#include <algorithm>
#include <string>

#include "executor/cuda/kernels/cast_core.h"
#include "executor/cuda/kernels/content_core.h"
#include "executor/cuda/kernels/digest_core.h"
#include "executor/state/content_mix.h"
#include "executor/state/runs.h"
#include "ptc/base/status.h"
#include "ptc/state/tensor/convert.h"

namespace scalai::executor::cuda::kernels {

using tensor::Box;

namespace {
using state::internal::Loop;
using state::internal::Runs;

int64_t rows_of(const Runs& runs, int from = 0) {
  int64_t rows = 1;
  for (int i = from; i < runs.loops; ++i) rows *= runs.loop[static_cast<size_t>(i)].count;
  return rows;
}

// Cuts the outermost loop until a part has at most kMaxRows rows.
template <class Visit>
void for_each_bounded(const Runs& runs, Visit visit) {
  if (rows_of(runs) <= int64_t{kMaxRows}) return visit(runs);
  const Loop outer = runs.loop[0];
  const int64_t step = std::max<int64_t>(1, int64_t{kMaxRows} / rows_of(runs, 1));
  for (int64_t i = 0; i < outer.count; i += step) {
    Runs some = runs;
    some.first_a += i * outer.step_a;
    some.first_b += i * outer.step_b;
    some.loop[0].count = std::min(step, outer.count - i);
    if (some.loop[0].count == 1) {
      std::move(some.loop.begin() + 1, some.loop.end(), some.loop.begin());
      --some.loops;
    }
    for_each_bounded(some, visit);
  }
}

Nest nest_of(const Runs& runs, int64_t unit_a, int64_t unit_b) {
  Nest nest;
  nest.loops = static_cast<uint32_t>(runs.loops);
  nest.rows = static_cast<uint32_t>(rows_of(runs));
  for (int i = 0; i < runs.loops; ++i) {
    const Loop& loop = runs.loop[static_cast<size_t>(runs.loops - 1 - i)];
    nest.step_a[i] = loop.step_a * unit_a;
    nest.step_b[i] = loop.step_b * unit_b;
    if (i + 1 < runs.loops) nest.count[i] = FastDivision::by(static_cast<uint32_t>(loop.count));
  }
  return nest;
}

// The largest power of two up to 16 that divides all: addresses, steps and the length of a run.
uint32_t alignment_of(std::initializer_list<uint64_t> values, const int64_t (&steps)[kMaxLoops]) {
  uint64_t all = 16;
  for (const uint64_t value : values) all |= value;
  for (const int64_t step : steps) all |= static_cast<uint64_t>(step);
  return static_cast<uint32_t>(all & (0 - all));
}

uint32_t unit_bytes(Move move) { return move == Move::kShift ? 16 : 1u << static_cast<uint32_t>(move); }

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

template <class Piece>
void append(Pieces<Piece>& batch, const Piece& piece, uint64_t tiles) {
  const uint64_t end = batch.tiles() + tiles;
  SCALAI_CHECK(end <= kMaxDividend, std::to_string(end) + " tiles");
  batch.pieces.push_back(piece);
  batch.first_tile.push_back(static_cast<uint32_t>(end));
}

void append_move(CopyBatch& batch, const Runs& runs, int64_t element, const std::byte* src, std::byte* dst) {
  CopyPiece piece;
  piece.src = src == nullptr ? nullptr : src + runs.first_a * element;
  piece.dst = dst + runs.first_b * element;
  piece.nest = nest_of(runs, src == nullptr ? 0 : element, element);
  piece.run = static_cast<uint64_t>(runs.length * element);
  const uint32_t alignment = std::min(alignment_of({address_of(piece.src), piece.run}, piece.nest.step_a),
                                      alignment_of({address_of(piece.dst)}, piece.nest.step_b));
  piece.move = move_of(alignment, piece.run);
  const uint32_t unit = unit_bytes(piece.move);
  // A row of n granules begins with the last byte of one and ends with the first byte of another, at worst.
  const uint64_t row_units = piece.move == Move::kShift ? (piece.run + 30) / 16 : piece.run / unit;
  const Tiling tiling = tiling_of(row_units, piece.nest.rows, unit, kCopyTileBytes);
  piece.cut = tiling.cut;
  append(piece.move == Move::kShift ? batch.shifts : batch.moves, piece, tiling.tiles);
}

void append_cast(Pieces<CastPiece>& batch, const Runs& runs, const device::BoxCopy& copy) {
  const int64_t from = tensor::size_of(copy.src.dtype);
  const int64_t to = tensor::size_of(copy.dst.dtype);
  CastPiece piece;
  piece.src = copy.src.data + runs.first_a * from;
  piece.dst = copy.dst.data + runs.first_b * to;
  piece.nest = nest_of(runs, from, to);
  piece.from = copy.src.dtype;
  piece.to = copy.dst.dtype;
  const auto aligned_to = [](uint64_t address, const int64_t(&steps)[kMaxLoops], int64_t element, uint32_t vector) {
    return alignment_of({address}, steps) >= std::min<uint64_t>(16, vector * static_cast<uint64_t>(element));
  };
  const auto both = [&](uint32_t vector) {
    return aligned_to(address_of(piece.src), piece.nest.step_a, from, vector) &&
           aligned_to(address_of(piece.dst), piece.nest.step_b, to, vector);
  };
  piece.vector = runs.length % kCastVector == 0 && both(kCastVector) ? kCastVector : both(1) ? 1 : 0;
  const uint32_t elements = std::max(1u, piece.vector);
  piece.unit_src = elements * static_cast<uint32_t>(from);
  piece.unit_dst = elements * static_cast<uint32_t>(to);
  const Tiling tiling = tiling_of(static_cast<uint64_t>(runs.length) / elements, piece.nest.rows,
                                  std::max(piece.unit_src, piece.unit_dst));
  piece.cut = tiling.cut;
  append(batch, piece, tiling.tiles);
}

ContentPiece content_piece(const state::Content& content, const Runs& runs, tensor::DType dtype) {
  ContentPiece piece;
  piece.index = runs.first_a;
  piece.nest = nest_of(runs, 1, tensor::size_of(dtype));
  piece.run = static_cast<uint64_t>(runs.length);
  piece.seed = state::internal::seed_of(content.key.value, content.step);
  piece.dtype = dtype;
  piece.via = content.via && convertible(*content.via, dtype) ? *content.via : dtype;
  return piece;
}
}  // namespace

uint32_t blocks_for(uint32_t tiles, int multiprocessors) {
  const auto resident = static_cast<uint32_t>(std::max(1, multiprocessors)) * kBlocksPerSm;
  return std::max(1u, std::min(tiles, resident));
}

Tiling tiling_of(uint64_t row_units, uint32_t rows, uint32_t bytes_of_unit, uint32_t tile_bytes) {
  const uint64_t most = std::min<uint64_t>(kTileUnits, tile_bytes / bytes_of_unit);
  Cut cut;
  cut.row_units = row_units;
  if (row_units > most) {
    constexpr uint64_t kTogether = 32;  // units of a warp: segments begin where memory's sectors do
    const uint64_t even = ceil_div(row_units, ceil_div(row_units, most));
    cut.segment = static_cast<uint32_t>(ceil_div(even, kTogether) * kTogether);
    const uint64_t tiles_per_row = ceil_div(row_units, cut.segment);
    SCALAI_CHECK(tiles_per_row <= kMaxDividend, std::to_string(row_units));
    cut.tiles_per_row = FastDivision::by(static_cast<uint32_t>(tiles_per_row));
    cut.units_per_row = FastDivision::by(kMaxDividend);  // all units of a tile are of row 0
    return {cut, tiles_per_row * rows};
  }
  cut.rows_per_tile = static_cast<uint32_t>(most / row_units);
  cut.units_per_row = FastDivision::by(static_cast<uint32_t>(row_units));
  return {cut, ceil_div(rows, cut.rows_per_tile)};
}

Move move_of(uint32_t alignment, uint64_t run) {
  // Below, a few units are cheaper than granules that are partly outside of the row.
  const uint64_t worth_shifting = std::max<uint64_t>(32, uint64_t{16} * alignment);
  if (alignment < 16 && run >= worth_shifting) return Move::kShift;
  switch (alignment) {
    case 1: return Move::kUnits1;
    case 2: return Move::kUnits2;
    case 4: return Move::kUnits4;
    case 8: return Move::kUnits8;
    default: return Move::kUnits16;
  }
}

CopyBatch make_copy_batch(std::span<const device::BoxCopy> copies, std::span<const BoxZero> zeros) {
  CopyBatch batch;
  for (const device::BoxCopy& copy : copies) {
    SCALAI_CHECK(convertible(copy.src.dtype, copy.dst.dtype),
                 std::string(name_of(copy.src.dtype)) + " to " + std::string(name_of(copy.dst.dtype)));
    if (copy.part.empty()) continue;
    SCALAI_CHECK(copy.src.data != nullptr, copy.part.str());
    for_each_bounded(state::internal::runs_of(copy.part, copy.src.box, copy.dst.box), [&](const Runs& runs) {
      if (copy.src.dtype != copy.dst.dtype) return append_cast(batch.casts, runs, copy);
      append_move(batch, runs, tensor::size_of(copy.src.dtype), copy.src.data, copy.dst.data);
    });
  }
  for (const BoxZero& zero : zeros) {
    if (zero.part.empty()) continue;
    for_each_bounded(state::internal::runs_of(zero.part, zero.dst.box, zero.dst.box), [&](const Runs& runs) {
      append_move(batch, runs, tensor::size_of(zero.dst.dtype), nullptr, zero.dst.data);
    });
  }
  return batch;
}

Pieces<ContentPiece> make_fill_batch(std::span<const device::BoxFill> fills) {
  Pieces<ContentPiece> batch;
  for (const device::BoxFill& fill : fills) {
    if (fill.part.empty()) continue;
    const int64_t element = tensor::size_of(fill.dst.dtype);
    for_each_bounded(
        state::internal::runs_of(fill.part, Box::whole(fill.content.shape), fill.dst.box), [&](const Runs& runs) {
          ContentPiece piece = content_piece(fill.content, runs, fill.dst.dtype);
          piece.data = fill.dst.data + runs.first_b * element;
          const auto alignment =
              alignment_of({address_of(piece.data), piece.run * static_cast<uint64_t>(element)}, piece.nest.step_b);
          const uint32_t vector = fill_vector(static_cast<uint32_t>(element));
          piece.vector = alignment >= vector * element ? vector : alignment >= element ? 1 : 0;
          const uint32_t elements = std::max(1u, piece.vector);
          const Tiling tiling =
              tiling_of(piece.run / elements, piece.nest.rows, elements * static_cast<uint32_t>(element));
          piece.cut = tiling.cut;
          append(batch, piece, tiling.tiles);
        });
  }
  return batch;
}

CheckBatch make_check_batch(std::span<const device::BoxCheck> checks) {
  CheckBatch batch;
  for (const device::BoxCheck& check : checks) {
    const auto result = static_cast<uint32_t>(batch.results++);
    if (check.part.empty()) continue;
    const int64_t element = tensor::size_of(check.src.dtype);
    const Runs whole = state::internal::runs_of(check.part, Box::whole(check.content.shape), check.src.box);
    for_each_bounded(whole, [&](const Runs& runs) {
      ContentPiece piece = content_piece(check.content, runs, check.src.dtype);
      // The kernel that gets this piece only reads.
      piece.data = const_cast<std::byte*>(check.src.data) + runs.first_b * element;
      piece.vector = 16 / static_cast<uint32_t>(element);
      piece.result = result;
      const Tiling tiling = tiling_of(ceil_div(piece.run, piece.vector), piece.nest.rows, 16);
      piece.cut = tiling.cut;
      append(batch.pieces, piece, tiling.tiles);
    });
  }
  return batch;
}

DigestBatch make_hash_batch(std::span<const device::BoxHash> boxes) {
  DigestBatch batch;
  for (const device::BoxHash& box : boxes) {
    const int64_t element = tensor::size_of(box.src.dtype);
    const auto result = static_cast<uint32_t>(batch.bytes.size());
    batch.bytes.push_back(static_cast<uint64_t>(box.part.volume() * element));
    if (box.part.empty()) continue;
    const Runs runs = state::internal::runs_of(box.part, box.src.box, box.src.box);
    SCALAI_CHECK(rows_of(runs) <= int64_t{kMaxRows}, box.part.str());
    DigestPiece piece;
    piece.src = box.src.data + runs.first_a * element;
    piece.nest = nest_of(runs, element, 0);
    piece.run = static_cast<uint64_t>(runs.length * element);
    piece.bytes = batch.bytes.back();
    if (piece.bytes <= kMaxDividend) piece.run_division = FastDivision::by(static_cast<uint32_t>(piece.run));
    piece.leaves = ceil_div(piece.bytes, state::internal::kLeafBytes);
    piece.result = result;
    append(batch.pieces, piece, ceil_div(piece.leaves, kLeavesPerTile));
  }
  return batch;
}

Box element_box(const tensor::Shape& shape, int64_t index) {
  Box box = Box::whole(shape);
  const auto strides = shape.strides();
  for (size_t d = 0; d < static_cast<size_t>(shape.rank()); ++d) {
    box.lo[d] = index / strides[d];
    box.hi[d] = box.lo[d] + 1;
    index %= strides[d];
  }
  return box;
}

const std::byte* element_address(const state::Source& src, const Box& element) {
  return src.data + state::internal::runs_of(element, src.box, src.box).first_a * tensor::size_of(src.dtype);
}

uint64_t digest_of_sum(uint64_t sum, uint64_t bytes) { return state::internal::digest_of_leaves(sum, bytes); }

}  // namespace scalai::executor::cuda::kernels
