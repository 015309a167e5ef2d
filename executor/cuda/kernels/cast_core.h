#pragma once
// The core of the cast kernel. Every cast goes by float32: exact from the narrower types; from F64 rounded to odd, so
// that only the following rounding counts (ptc/state/tensor/codec.h). So the code has only six conversions to float32
// and six from it.

#include <bit>
#include <cstdint>

#include "executor/cuda/kernels/tiles.h"
#include "ptc/state/tensor/codec.h"

namespace scalai::executor::cuda::kernels {

inline constexpr uint32_t kCastVector = 4;  // elements per unit, if both sides are aligned to them

template <class Stored>
using BitsOf = typename UnitOf<sizeof(Stored)>::Type;

// kVector elements of one type, as bits. Aligned to their total size, up to 16 bytes.
template <class Stored, uint32_t kVector>
struct Pack {
  BitsOf<Stored> element[kVector];
};
template <class Stored, uint32_t kVector>
SCALAI_HOST_DEVICE inline Pack<Stored, kVector> load_pack(const std::byte* at) {
  using P = Pack<Stored, kVector>;
  if constexpr (sizeof(P) <= 16) {
    return std::bit_cast<P>(load_unit<typename UnitOf<sizeof(P)>::Type>(at));
  } else {
    struct Halves {
      Quad half[2];
    };
    return std::bit_cast<P>(Halves{{load_unit<Quad>(at), load_unit<Quad>(at + 16)}});
  }
}
template <class Stored, uint32_t kVector>
SCALAI_HOST_DEVICE inline void store_pack(std::byte* at, const Pack<Stored, kVector>& pack) {
  using P = Pack<Stored, kVector>;
  if constexpr (sizeof(P) <= 16) {
    store_unit(at, std::bit_cast<typename UnitOf<sizeof(P)>::Type>(pack));
  } else {
    struct Halves {
      Quad half[2];
    };
    const auto halves = std::bit_cast<Halves>(pack);
    store_unit(at, halves.half[0]);
    store_unit(at + 16, halves.half[1]);
  }
}

template <class From>
SCALAI_HOST_DEVICE inline float to_float(BitsOf<typename From::Stored> bits, bool round_again) {
  const auto value = std::bit_cast<typename From::Stored>(bits);
  if constexpr (sizeof(value) == 8) {
    return round_again ? tensor::codec::to_odd(value) : tensor::codec::float_of(value);
  } else {
    return From::widen(value);
  }
}

// kVector = 1: `bytewise` if elements lie at any address.
template <uint32_t kVector>
SCALAI_HOST_DEVICE inline void cast_units(const CastPiece& piece, const Span& span, uint32_t thread, uint32_t threads,
                                          bool bytewise) {
  constexpr uint32_t kCastsInFlight = 2;
  const std::byte* src = piece.src;
  std::byte* dst = piece.dst;
  const tensor::DType from = piece.from;
  const tensor::DType to = piece.to;
  for_each_group<kCastsInFlight>(piece, span, thread, threads, {piece.unit_src, piece.unit_dst},
                                 [&](const auto& units) {
                                   float value[kCastsInFlight][kVector];
                                   tensor::codec::with_codec(from, [&](auto codec) {
                                     using From = decltype(codec);
                                     using Stored = typename From::Stored;
                                     Pack<Stored, kVector> pack[kCastsInFlight] = {};
                                     SCALAI_UNROLL
                                     for (uint32_t i = 0; i < kCastsInFlight; ++i) {
                                       if (!units.here[i]) continue;
                                       const std::byte* at = src + units.place[i].a;
                                       if (kVector == 1 && bytewise) {
                                         pack[i].element[0] = load_bytes<BitsOf<Stored>>(at);
                                       } else {
                                         pack[i] = load_pack<Stored, kVector>(at);
                                       }
                                     }
                                     SCALAI_UNROLL
                                     for (uint32_t i = 0; i < kCastsInFlight; ++i) {
                                       SCALAI_UNROLL
                                       for (uint32_t e = 0; e < kVector; ++e)
                                         value[i][e] = to_float<From>(pack[i].element[e], to != tensor::DType::kF32);
                                     }
                                   });
                                   tensor::codec::with_codec(to, [&](auto codec) {
                                     using To = decltype(codec);
                                     using Stored = typename To::Stored;
                                     SCALAI_UNROLL
                                     for (uint32_t i = 0; i < kCastsInFlight; ++i) {
                                       if (!units.here[i]) continue;
                                       Pack<Stored, kVector> pack;
                                       SCALAI_UNROLL
                                       for (uint32_t e = 0; e < kVector; ++e) {
                                         pack.element[e] = std::bit_cast<BitsOf<Stored>>(To::narrow(value[i][e]));
                                       }
                                       std::byte* at = dst + units.place[i].b;
                                       if (kVector == 1 && bytewise) {
                                         store_bytes(at, pack.element[0]);
                                       } else {
                                         store_pack<Stored, kVector>(at, pack);
                                       }
                                     }
                                   });
                                 });
}

SCALAI_HOST_DEVICE inline void cast_tiles(const Work<CastPiece>& work, uint32_t block, uint32_t blocks, uint32_t thread,
                                          uint32_t threads) {
  for_each_tile(work, block, blocks, [&](const CastPiece& piece, uint32_t tile) {
    const Span span = span_of(piece.cut, piece.nest.rows, tile);
    if (piece.vector == kCastVector) return cast_units<kCastVector>(piece, span, thread, threads, false);
    cast_units<1>(piece, span, thread, threads, piece.vector == 0);
  });
}

}  // namespace scalai::executor::cuda::kernels
