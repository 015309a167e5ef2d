#pragma once
// The cores of fill and check: compute elements from their global index, 16 bytes at a time, and write or compare them.

#include <bit>
#include <cstdint>

#include "executor/cuda/kernels/cast_core.h"
#include "executor/cuda/kernels/tiles.h"
#include "executor/state/content_mix.h"

namespace scalai::executor::cuda::kernels {

// Source of the content of kVector elements from `index` on.
template <uint32_t kVector>
struct Indices {
  state::internal::Words words[kVector];
  uint32_t in_block[kVector];
};
template <uint32_t kVector>
SCALAI_HOST_DEVICE inline Indices<kVector> indices_from(uint64_t seed, int64_t index) {
  constexpr auto kBlock = static_cast<uint32_t>(state::internal::kBlock);
  const int64_t block = index >> state::internal::kBlockBits;
  const auto first = static_cast<uint32_t>(index) & (kBlock - 1);
  const state::internal::Words words = state::internal::words_of(seed, block);
  state::internal::Words next = words;
  if (first + kVector > kBlock) next = state::internal::words_of(seed, block + 1);
  Indices<kVector> indices;
  SCALAI_UNROLL
  for (uint32_t e = 0; e < kVector; ++e) {
    const bool here = first + e < kBlock;
    indices.words[e] = {here ? words.first : next.first, here ? words.second : next.second};
    indices.in_block[e] = (first + e) & (kBlock - 1);
  }
  return indices;
}

// Floating elements, rounded to another type first.
template <class Codec, uint32_t kVector>
SCALAI_HOST_DEVICE inline Pack<typename Codec::Stored, kVector> content_via(const Indices<kVector>& indices,
                                                                            tensor::DType via) {
  float value[kVector];
  SCALAI_UNROLL
  for (uint32_t e = 0; e < kVector; ++e) {
    value[e] = state::internal::FloatElement<Codec>::exact(indices.words[e], indices.in_block[e]);
  }
  tensor::codec::with_codec(via, [&](auto codec) {
    using Via = decltype(codec);
    if constexpr (sizeof(typename Via::Stored) < 4) {  // wider types hold float32 exactly
      SCALAI_UNROLL
      for (uint32_t e = 0; e < kVector; ++e) value[e] = Via::widen(Via::narrow(value[e]));
    }
  });
  Pack<typename Codec::Stored, kVector> pack;
  SCALAI_UNROLL
  for (uint32_t e = 0; e < kVector; ++e) {
    pack.element[e] = std::bit_cast<BitsOf<typename Codec::Stored>>(Codec::narrow(value[e]));
  }
  return pack;
}

template <class Element, uint32_t kVector>
SCALAI_HOST_DEVICE inline Pack<typename Element::Stored, kVector> content_of(const ContentPiece& piece, int64_t index) {
  using Stored = typename Element::Stored;
  const Indices<kVector> indices = indices_from<kVector>(piece.seed, index);
  if constexpr (requires { typename Element::Codec; }) {
    if (piece.via != piece.dtype) return content_via<typename Element::Codec>(indices, piece.via);
  }
  Pack<Stored, kVector> pack;
  SCALAI_UNROLL
  for (uint32_t e = 0; e < kVector; ++e) {
    pack.element[e] = std::bit_cast<BitsOf<Stored>>(Element::of(indices.words[e], indices.in_block[e]));
  }
  return pack;
}

// Elements per unit if they are aligned to it: 16 bytes, but no more elements than fit in registers.
SCALAI_HOST_DEVICE constexpr uint32_t fill_vector(uint32_t element) { return element == 1 ? 8 : 16 / element; }

// --- fill ------------------------------------------------------------------------------------------------------------
template <class Element, uint32_t kVector>
SCALAI_HOST_DEVICE inline void fill_units(const ContentPiece& piece, const Span& span, uint32_t thread,
                                          uint32_t threads) {
  using Stored = typename Element::Stored;
  const bool bytewise = piece.vector == 0;
  for_each_group<1>(piece, span, thread, threads, {kVector, kVector * sizeof(Stored)}, [&](const auto& units) {
    const Place& place = units.place[0];
    const Pack<Stored, kVector> pack = content_of<Element, kVector>(piece, piece.index + place.a);
    std::byte* at = piece.data + place.b;
    if (kVector == 1 && bytewise) {
      store_bytes(at, pack.element[0]);
    } else {
      store_pack<Stored, kVector>(at, pack);
    }
  });
}

SCALAI_HOST_DEVICE inline void fill_tiles(const Work<ContentPiece>& work, uint32_t block, uint32_t blocks,
                                          uint32_t thread, uint32_t threads) {
  for_each_tile(work, block, blocks, [&](const ContentPiece& piece, uint32_t tile) {
    const Span span = span_of(piece.cut, piece.nest.rows, tile);
    state::internal::with_element(piece.dtype, [&](auto element) {
      using Element = decltype(element);
      if (piece.vector > 1) {
        fill_units<Element, fill_vector(sizeof(typename Element::Stored))>(piece, span, thread, threads);
      } else {
        fill_units<Element, 1>(piece, span, thread, threads);
      }
    });
  });
}

// --- check -----------------------------------------------------------------------------------------------------------
template <class Stored, uint32_t kVector>
SCALAI_HOST_DEVICE inline void note_wrong(const Pack<Stored, kVector>& expected, const Pack<Stored, kVector>& found,
                                          uint32_t count, int64_t index, CheckResult* result) {
  uint32_t wrong = 0;
  uint32_t first = kVector;
  SCALAI_UNROLL
  for (uint32_t e = 0; e < kVector; ++e) {
    const bool differs = e < count && expected.element[e] != found.element[e];
    wrong += differs ? 1 : 0;
    first = differs && first == kVector ? e : first;
  }
  if (wrong == 0) return;
  add_to(&result->wrong, wrong);
  lower_to(&result->first, static_cast<uint64_t>(index) + first);
}

// The n-th pack of a quad.
template <class Stored, uint32_t kVector>
SCALAI_HOST_DEVICE inline Pack<Stored, kVector> part_of(const Quad& quad, uint32_t n) {
  using P = Pack<Stored, kVector>;
  if constexpr (sizeof(P) == 16) {
    return std::bit_cast<P>(quad);
  } else {
    static_assert(sizeof(P) == 8);
    return std::bit_cast<P>(quad.word[2 * n] | (uint64_t{quad.word[2 * n + 1]} << 32));
  }
}

// Reads need no alignment: every unit is 16 bytes of elements; only the last unit of a row may have fewer.
template <class Element>
SCALAI_HOST_DEVICE inline void check_units(const ContentPiece& piece, const Span& span, CheckResult* result,
                                           uint32_t thread, uint32_t threads) {
  using Stored = typename Element::Stored;
  constexpr uint32_t kVector = 16 / sizeof(Stored);
  constexpr uint32_t kPart = fill_vector(sizeof(Stored));
  for_each_group<1>(piece, span, thread, threads, {kVector, kVector * sizeof(Stored)}, [&](const auto& units) {
    const Place& place = units.place[0];
    const uint64_t left = piece.run - place.unit * kVector;
    const uint32_t count = left < kVector ? static_cast<uint32_t>(left) : kVector;
    const Quad found = load_any(piece.data + place.b, 0, count * uint32_t{sizeof(Stored)});
    const int64_t index = piece.index + place.a;
    SCALAI_UNROLL
    for (uint32_t at = 0; at < kVector; at += kPart) {
      if (at >= count) continue;
      const Pack<Stored, kPart> expected = content_of<Element, kPart>(piece, index + at);
      note_wrong(expected, part_of<Stored, kPart>(found, at / kPart), count - at, index + at, result);
    }
  });
}

SCALAI_HOST_DEVICE inline void check_tiles(const Work<ContentPiece>& work, CheckResult* results, uint32_t block,
                                           uint32_t blocks, uint32_t thread, uint32_t threads) {
  for_each_tile(work, block, blocks, [&](const ContentPiece& piece, uint32_t tile) {
    const Span span = span_of(piece.cut, piece.nest.rows, tile);
    state::internal::with_element(piece.dtype, [&](auto element) {
      check_units<decltype(element)>(piece, span, results + piece.result, thread, threads);
    });
  });
}

}  // namespace scalai::executor::cuda::kernels
