#include "ptc/store/views/internal/chunk_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::store::internal {
namespace chunk_files_test {

using Shape = std::vector<int64_t>;

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

// Element by element: every logical element of the piece is in the chunk that has its stored place, and nowhere else.
void expect_parts(const tensor::Piece& piece, const Shape& shape, const std::vector<std::pair<Shape, Shape>>& chunks) {
  const Shape dense = strides_of(shape);
  std::map<Shape, int64_t> expected, found;  // stored flat index by logical index
  const auto rank = static_cast<size_t>(piece.box.rank);
  const auto visit = [&](const tensor::Piece& part, const auto& take) {
    Shape at(part.box.lo.begin(), part.box.lo.begin() + static_cast<std::ptrdiff_t>(rank));
    for (int64_t left = part.box.volume(); left > 0; --left) {
      int64_t flat = part.offset;
      for (size_t dim = 0; dim < rank; ++dim) flat += (at[dim] - part.box.lo[dim]) * part.strides[dim];
      take(at, flat);
      for (size_t dim = rank; dim-- > 0;) {
        if (++at[dim] < part.box.hi[dim]) break;
        at[dim] = part.box.lo[dim];
      }
    }
  };
  visit(piece, [&](const Shape& at, int64_t flat) { expected[at] = flat; });
  for (const auto& [offsets, sizes] : chunks) {
    const auto part = piece_in_chunk(piece, shape, offsets, sizes);
    ASSERT_TRUE(part.ok()) << message_of(part.status());
    if (!*part) continue;
    const Shape in_chunk = strides_of(sizes);
    visit(**part, [&, &offsets = offsets, &sizes = sizes](const Shape& at, int64_t flat) {
      int64_t whole = 0;
      for (size_t dim = 0; dim < shape.size(); ++dim)
        whole += (offsets[dim] + flat / in_chunk[dim] % sizes[dim]) * dense[dim];
      EXPECT_TRUE(found.emplace(at, whole).second) << "twice";
    });
  }
  EXPECT_EQ(found, expected);
}

// Cuts a range at random places.
std::vector<std::pair<int64_t, int64_t>> cut(int64_t extent, Random& random) {
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (int64_t at = 0; at < extent;) {
    const int64_t size = random.between(1, extent - at);
    parts.emplace_back(at, size);
    at += size;
  }
  return parts;
}

TEST(ChunkFiles, PiecesInChunksAreTheirElements) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const Shape shape = {random.between(1, 12), random.between(1, 7)};
    std::vector<std::pair<Shape, Shape>> chunks;
    for (const auto& [row, rows] : cut(shape[0], random)) {
      for (const auto& [column, columns] : cut(shape[1], random)) chunks.push_back({{row, column}, {rows, columns}});
    }
    // Rows begin, begin + step, … of the stored tensor, whole; or of its columns, as one that is stored transposed.
    const int64_t begin = random.below(shape[0]), step = random.between(1, 3);
    const int64_t count = (shape[0] - begin + step - 1) / step;
    const bool transposed = random.below(2) == 0;
    tensor::Piece piece;
    if (transposed)
      piece = {.box = {{2, 5}, {2 + shape[1], 5 + count}}, .offset = begin * shape[1], .strides = {1, step * shape[1]}};
    else
      piece = {.box = {{5, 2}, {5 + count, 2 + shape[1]}}, .offset = begin * shape[1], .strides = {step * shape[1], 1}};
    expect_parts(piece, shape, chunks);
  }
}

TEST(ChunkFiles, PlacesAcrossDimensionsAreRefused) {
  const tensor::Piece piece{.box = {{0}, {6}}, .offset = 0, .strides = {1}};  // flat in two dimensions
  EXPECT_FALSE(piece_in_chunk(piece, {2, 3}, {0, 0}, {1, 3}).ok());
}

}  // namespace chunk_files_test
}  // namespace scalai::store::internal
