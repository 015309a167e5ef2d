#pragma once
// The core of the digest kernel: one thread per leaf, gathered from the rows of the part.

#include <cstdint>

#include "executor/cuda/kernels/tiles.h"
#include "executor/state/digest_mix.h"

namespace scalai::executor::cuda::kernels {

inline constexpr uint32_t kLeavesPerTile = kTileBytes / state::internal::kLeafBytes;

// Iterates over the bytes of a part in row-major order.
struct Reader {
  const DigestPiece& piece;
  uint64_t left;  // bytes until the end of the part
  uint32_t row = 0;
  uint64_t column = 0;  // bytes in the row
  const std::byte* at = nullptr;

  SCALAI_HOST_DEVICE Reader(const DigestPiece& of, uint64_t position) : piece(of), left(of.bytes - position) {
    if (piece.nest.loops == 0) {
      column = position;
    } else if (piece.bytes <= kMaxDividend) {
      row = piece.run_division.quotient(static_cast<uint32_t>(position));
      column = position - row * piece.run;
    } else {
      row = static_cast<uint32_t>(position / piece.run);
      column = position - row * piece.run;
    }
    if (left > 0) at = piece.src + offsets_of(piece.nest, row).a + column;
  }

  // The next 16 bytes; zeros after the end.
  SCALAI_HOST_DEVICE Quad next() {
    const uint32_t count = left < 16 ? static_cast<uint32_t>(left) : 16;
    if (count > 0 && column + count <= piece.run) {
      Quad quad = load_any(at, 0, count);
      if (count < 16) clear_from(quad, count);
      advance(count);
      return quad;
    }
    uint64_t half[2] = {0, 0};
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t byte = load_unit<uint8_t>(at);
      half[0] |= i < 8 ? byte << (8 * i) : 0;
      half[1] |= i < 8 ? 0 : byte << (8 * (i - 8));
      advance(1);
    }
    return {{static_cast<uint32_t>(half[0]), static_cast<uint32_t>(half[0] >> 32), static_cast<uint32_t>(half[1]),
             static_cast<uint32_t>(half[1] >> 32)}};
  }

 private:
  SCALAI_HOST_DEVICE static void clear_from(Quad& quad, uint32_t count) {
    SCALAI_UNROLL
    for (uint32_t w = 0; w < 4; ++w) {
      const uint32_t bytes = count <= 4 * w ? 0 : count - 4 * w;
      if (bytes < 4) quad.word[w] &= (1u << (8 * bytes)) - 1;
    }
  }
  SCALAI_HOST_DEVICE void advance(uint32_t count) {
    left -= count;
    column += count;
    at += count;
    if (column < piece.run || left == 0) return;
    column = 0;
    at = piece.src + offsets_of(piece.nest, ++row).a;
  }
};

SCALAI_HOST_DEVICE inline void take(state::internal::Leaf& leaf, uint32_t lane, const Quad& quad) {
  leaf.take(lane, quad.word[0] | (uint64_t{quad.word[1]} << 32));
  leaf.take(lane + 1, quad.word[2] | (uint64_t{quad.word[3]} << 32));
}

// The whole leaf is in one row: reads at most nine granules, each once.
SCALAI_HOST_DEVICE inline void take_row(state::internal::Leaf& leaf, const std::byte* at) {
  const uint32_t skip = static_cast<uint32_t>(address_of(at)) & 15;
  const std::byte* granule = at - skip;
  Quad here = load_unit<Quad>(granule);
  SCALAI_UNROLL
  for (uint32_t j = 0; j < 8; ++j) {
    Quad next{};
    if (j < 7 || skip > 0) next = load_unit<Quad>(granule + 16 * (j + 1));
    take(leaf, j % 2 * 2, shifted(here, next, skip));
    here = next;
  }
}

SCALAI_HOST_DEVICE inline uint64_t leaf_of(const DigestPiece& piece, uint64_t number) {
  Reader reader(piece, number * state::internal::kLeafBytes);
  state::internal::Leaf leaf(number);
  if (reader.column + state::internal::kLeafBytes <= piece.run) {
    take_row(leaf, reader.at);
    return leaf.end();
  }
  for (uint32_t j = 0; j < 4; ++j) {
    take(leaf, 0, reader.next());
    take(leaf, 2, reader.next());
  }
  return leaf.end();
}

// A sum stays in registers while the tiles are of one box: few additions to memory, where all blocks contend.
SCALAI_HOST_DEVICE inline void digest_tiles(const Work<DigestPiece>& work, uint64_t* sums, uint32_t block,
                                            uint32_t blocks, uint32_t thread, uint32_t threads) {
  uint64_t sum = 0;
  uint64_t* target = nullptr;
  for_each_tile(work, block, blocks, [&](const DigestPiece& piece, uint32_t tile) {
    if (target != sums + piece.result) {
      if (target != nullptr) add_warp_to(target, sum);
      target = sums + piece.result;
      sum = 0;
    }
    const uint64_t first = uint64_t{tile} * kLeavesPerTile;
    const uint64_t end = first + kLeavesPerTile < piece.leaves ? first + kLeavesPerTile : piece.leaves;
    for (uint64_t i = first + thread; i < end; i += threads) sum += leaf_of(piece, i);
  });
  if (target != nullptr) add_warp_to(target, sum);
}

}  // namespace scalai::executor::cuda::kernels
