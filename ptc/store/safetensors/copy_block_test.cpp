#include "ptc/store/safetensors/copy_block.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ptc/base/random.h"
#include "ptc/store/safetensors/testing/memory_source.h"

namespace scalai::store {
namespace {

using tensor::Box;
using tensor::Piece;
using tensor::Shape;

// A piece that holds `box` with its dimensions in any order and gaps between them; `elements` gets what it spans.
Piece random_piece(Random& random, const Box& box, int64_t& elements) {
  std::vector<size_t> order(static_cast<size_t>(box.rank));
  std::iota(order.begin(), order.end(), size_t{0});
  if (random.below(3) == 0) {
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
    }
  }
  Piece piece{.box = box, .offset = random.below(3)};
  int64_t stride = 1;
  for (size_t i = order.size(); i > 0; --i) {
    piece.strides[order[i - 1]] = stride;
    stride *= box.extent(static_cast<int>(order[i - 1]));
    if (random.below(3) == 0) stride += random.below(5);
  }
  elements = piece.offset + stride;
  return piece;
}

Box random_box(Random& random, int rank, int64_t most) {
  Box box;
  box.rank = static_cast<int8_t>(rank);
  for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
    box.lo[d] = random.below(most);
    box.hi[d] = box.lo[d] + 1 + random.below(most);
  }
  return box;
}

int64_t place_of(const Piece& piece, const std::array<int64_t, tensor::kMaxRank>& index) {
  int64_t place = piece.offset;
  for (size_t d = 0; d < static_cast<size_t>(piece.box.rank); ++d) {
    place += (index[d] - piece.box.lo[d]) * piece.strides[d];
  }
  return place;
}

template <class Visit>
void for_each_index(const Box& box, const Visit& visit) {
  std::array<int64_t, tensor::kMaxRank> index = box.lo;
  for (int64_t i = 0; i < box.volume(); ++i) {
    visit(index);
    for (int dim = box.rank - 1; dim >= 0; --dim) {
      const auto d = static_cast<size_t>(dim);
      if (++index[d] < box.hi[d]) break;
      index[d] = box.lo[d];
    }
  }
}

constexpr std::byte kUntouched{0xEE};

struct Case {
  Piece src, dst;
  Box common;
  int64_t element_bytes = 1, src_base = 0, dst_base = 0;
  std::vector<std::byte> file, expected;
};

Case random_case(Random& random, int64_t most) {
  while (true) {
    Case made;
    const int rank = static_cast<int>(random.below(4));
    const Box a = random_box(random, rank, most);
    const Box b = random_box(random, rank, most);
    const std::optional<Box> common = intersect(a, b);
    if (!common) continue;
    made.common = *common;
    made.element_bytes = int64_t{1} << random.below(4);
    made.src_base = random.below(20);
    made.dst_base = random.below(20);
    int64_t src_elements = 0, dst_elements = 0;
    made.src = random_piece(random, a, src_elements);
    made.dst = random_piece(random, b, dst_elements);
    for (int64_t i = 0; i < made.src_base + src_elements * made.element_bytes; ++i) {
      made.file.push_back(static_cast<std::byte>(random.below(256)));
    }
    made.expected.assign(static_cast<size_t>(made.dst_base + dst_elements * made.element_bytes), kUntouched);
    for_each_index(made.common, [&](const auto& index) {
      const int64_t from = made.src_base + place_of(made.src, index) * made.element_bytes;
      const int64_t to = made.dst_base + place_of(made.dst, index) * made.element_bytes;
      for (int64_t k = 0; k < made.element_bytes; ++k) {
        made.expected[static_cast<size_t>(to + k)] = made.file[static_cast<size_t>(from + k)];
      }
    });
    return made;
  }
}

CopyBlock block_in(const Case& made) {
  return block_of(0, {made.src, made.src_base}, {made.dst, made.dst_base}, made.common, made.element_bytes);
}

TEST(CopyBlock, MovesEveryElementToItsPlace) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const Case made = random_case(random, 9);
    const CopyBlock block = block_in(made);
    EXPECT_EQ(block.bytes(), made.common.volume() * made.element_bytes);
    const MemorySource source(made.file);
    std::vector<std::byte> dst(made.expected.size(), kUntouched);
    ASSERT_TRUE(Gatherer().copy(block, source, 0, dst).ok());
    ASSERT_EQ(dst, made.expected);
  }
}

TEST(CopyBlock, ClippedItWritesJustThatRange) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const Case made = random_case(random, 6);
    const CopyBlock block = block_in(made);
    const auto size = static_cast<int64_t>(made.expected.size());
    const int64_t begin = random.between(0, size);
    const int64_t end = random.between(begin, size);
    std::vector<CopyBlock> parts;
    clip(block, begin, end, parts);
    EXPECT_LE(parts.size(), 2 * CopyBlock::kMaxDims - 1);
    const MemorySource source(made.file);
    std::vector<std::byte> dst(static_cast<size_t>(end - begin), kUntouched);
    int64_t at = begin;
    for (const CopyBlock& part : parts) {
      ASSERT_GE(part.dst, at);  // in order
      ASSERT_LE(part.dst_end(), end);
      at = part.dst_end();
      ASSERT_TRUE(Gatherer().copy(part, source, begin, dst).ok());
    }
    ASSERT_EQ(dst, std::vector(made.expected.begin() + begin, made.expected.begin() + end));
  }
}

Piece whole(const Shape& shape) { return {.box = Box::whole(shape), .offset = 0, .strides = shape.strides()}; }

TEST(CopyBlock, RowsAreOneReadAndNothingBetween) {
  const Piece src = whole({64, 1000});
  const Piece dst{.box = Box({16, 0}, {32, 1000}), .offset = 0, .strides = {1000, 1}};
  const CopyBlock block = block_of(3, {src, 8}, {dst, 0}, dst.box, 4);
  EXPECT_EQ(block.dims, 1u);
  EXPECT_EQ(block.file, 3u);
  EXPECT_EQ(block.src, 8 + 16 * 4000);
  EXPECT_EQ(block.run_bytes(), 64000);
  const MemorySource source(std::vector<std::byte>(8 + 64 * 4000));
  std::vector<std::byte> to(64000);
  ASSERT_TRUE(Gatherer().copy(block, source, 0, to).ok());
  EXPECT_EQ(source.reads, 1);
}

TEST(CopyBlock, NearColumnsComeTogetherFarOnesApart) {
  const MemorySource source(std::vector<std::byte>(int64_t{64} << 20));
  std::vector<std::byte> to(size_t{1} << 20);
  const auto copy = [&](const Shape& shape, const Box& box) {
    source.reads = 0;
    source.bytes_read = 0;
    const Piece dst{.box = box, .offset = 0, .strides = {box.extent(1), 1}};
    EXPECT_TRUE(Gatherer().copy(block_of(0, {whole(shape), 0}, {dst, 0}, box, 1), source, 0, to).ok());
  };
  copy({4096, 1024}, Box({0, 0}, {4096, 256}));  // 4 MiB of which a quarter is wanted
  EXPECT_LE(source.reads, 5);
  EXPECT_LE(source.bytes_read, int64_t{4} << 20);
  copy({64, 1 << 20}, Box({0, 0}, {64, 256}));  // 256 bytes in each MiB
  EXPECT_EQ(source.reads, 64);
  EXPECT_EQ(source.bytes_read, 64 * 256);
  copy({8, 1 << 20}, Box({0, 0}, {8, 1 << 17}));  // long runs, straight to their place
  EXPECT_EQ(source.reads, 8);
  EXPECT_EQ(source.bytes_read, 1 << 20);
}

TEST(CopyBlock, LargeTransposedOnesAreRight) {
  const int64_t rows = 700, columns = 900;
  std::vector<std::byte> file(static_cast<size_t>(rows * columns * 4));
  for (int64_t i = 0; i < rows * columns; ++i) {
    const auto value = static_cast<uint32_t>(i * 2654435761u);
    std::memcpy(file.data() + i * 4, &value, 4);
  }
  const MemorySource source(file);
  const Piece src = whole({rows, columns});
  const Piece dst{.box = src.box, .offset = 0, .strides = {1, rows}};  // stored as [columns, rows]
  std::vector<std::byte> to(file.size());
  ASSERT_TRUE(Gatherer().copy(block_of(0, {src, 0}, {dst, 0}, src.box, 4), source, 0, to).ok());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      ASSERT_EQ(std::memcmp(to.data() + (c * rows + r) * 4, file.data() + (r * columns + c) * 4, 4), 0)
          << r << " " << c;
    }
  }
}

}  // namespace
}  // namespace scalai::store
