#pragma once
// The cores of the copy kernels: units of one size if both sides are aligned to it (copy_tiles); otherwise 16-byte
// granules of the destination, composed by shifts from the source's granules (shift_tiles). Each thread of a launch
// calls one of them once.

#include <cstdint>

#include "executor/cuda/kernels/tiles.h"

namespace scalai::executor::cuda::kernels {

template <class Unit, class Units>
SCALAI_HOST_DEVICE inline void copy_group(const std::byte* src, std::byte* dst, const Units& units) {
  Unit unit[Units::kSize] = {};
  SCALAI_UNROLL
  for (uint32_t i = 0; i < Units::kSize; ++i) {
    if (!units.here[i] || src == nullptr) continue;
    const std::byte* at = src + units.place[i].a;
    if constexpr (sizeof(Unit) == 16) {
      unit[i] = load_once(at);
    } else {
      unit[i] = load_unit<Unit>(at);
    }
  }
  SCALAI_UNROLL
  for (uint32_t i = 0; i < Units::kSize; ++i) {
    if (!units.here[i]) continue;
    std::byte* at = dst + units.place[i].b;
    if constexpr (sizeof(Unit) == 16) {
      store_once(at, unit[i]);
    } else {
      store_unit(at, unit[i]);
    }
  }
}

template <class Unit>
SCALAI_HOST_DEVICE inline void copy_units(const CopyPiece& piece, const Span& span, uint32_t thread, uint32_t threads) {
  const std::byte* src = piece.src;
  std::byte* dst = piece.dst;
  const auto copy = [src, dst](const auto& units) { copy_group<Unit>(src, dst, units); };
  constexpr Offsets kStep{sizeof(Unit), sizeof(Unit)};
  if (span.rows == 1) return for_each_group_in_row<4>(piece, span, thread, threads, kStep, copy);
  for_each_group<2>(piece, span, thread, threads, kStep, copy);
}

// Bytes lo to hi − 1 of the granule at `at` belong to the row; the granule's first byte comes from `from`.
struct Granule {
  const std::byte* from;
  std::byte* at;
  uint32_t lo;
  uint32_t hi;  // equal to lo: the row has no byte here
};
SCALAI_HOST_DEVICE inline Granule granule_of(const CopyPiece& piece, const Place& place) {
  std::byte* row = piece.dst + place.b;
  const auto head = static_cast<uint32_t>(address_of(row)) & 15;
  const uint64_t begin = place.unit * 16;  // counted from the granule that has the row's first byte
  const uint64_t end = head + piece.run;
  const uint32_t lo = begin < head ? head : 0;
  const uint32_t hi = end <= begin ? lo : end - begin < 16 ? static_cast<uint32_t>(end - begin) : 16;
  const int64_t skip = static_cast<int64_t>(begin) - head;
  return {piece.src == nullptr ? nullptr : piece.src + place.a + skip, row + skip, lo, hi};
}

template <class Units>
SCALAI_HOST_DEVICE inline void copy_granule_group(const CopyPiece& piece, const Units& units) {
  Granule granule[Units::kSize];
  Quad quad[Units::kSize] = {};
  SCALAI_UNROLL
  for (uint32_t i = 0; i < Units::kSize; ++i) {
    granule[i] = granule_of(piece, units.place[i]);
    if (!units.here[i]) granule[i].hi = granule[i].lo;
    if (piece.src == nullptr || granule[i].lo == granule[i].hi) continue;
    quad[i] = load_any(granule[i].from, granule[i].lo, granule[i].hi);
  }
  SCALAI_UNROLL
  for (uint32_t i = 0; i < Units::kSize; ++i) {
    if (granule[i].hi - granule[i].lo == 16) {
      store_once(granule[i].at, quad[i]);
    } else {
      store_part(granule[i].at, quad[i], granule[i].lo, granule[i].hi);
    }
  }
}

SCALAI_HOST_DEVICE inline void copy_granules(const CopyPiece& piece, const Span& span, uint32_t thread,
                                             uint32_t threads) {
  const auto copy = [&piece](const auto& units) { copy_granule_group(piece, units); };
  constexpr Offsets kRow{0, 0};  // granules are counted from the row's first one
  if (span.rows == 1) return for_each_group_in_row<1>(piece, span, thread, threads, kRow, copy);
  for_each_group<1>(piece, span, thread, threads, kRow, copy);
}

SCALAI_HOST_DEVICE inline void copy_tiles(const Work<CopyPiece>& work, uint32_t block, uint32_t blocks, uint32_t thread,
                                          uint32_t threads) {
  for_each_tile(work, block, blocks, [&](const CopyPiece& piece, uint32_t tile) {
    const Span span = span_of(piece.cut, piece.nest.rows, tile);
    switch (piece.move) {
      case Move::kUnits1: return copy_units<uint8_t>(piece, span, thread, threads);
      case Move::kUnits2: return copy_units<uint16_t>(piece, span, thread, threads);
      case Move::kUnits4: return copy_units<uint32_t>(piece, span, thread, threads);
      case Move::kUnits8: return copy_units<uint64_t>(piece, span, thread, threads);
      case Move::kUnits16: return copy_units<Quad>(piece, span, thread, threads);
      case Move::kShift: return;  // not in CopyBatch::moves
    }
  });
}

SCALAI_HOST_DEVICE inline void shift_tiles(const Work<CopyPiece>& work, uint32_t block, uint32_t blocks,
                                           uint32_t thread, uint32_t threads) {
  for_each_tile(work, block, blocks, [&](const CopyPiece& piece, uint32_t tile) {
    copy_granules(piece, span_of(piece.cut, piece.nest.rows, tile), thread, threads);
  });
}

}  // namespace scalai::executor::cuda::kernels
