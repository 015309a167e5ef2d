#include "ptc/store/views/internal/piece_index.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/random.h"

namespace scalai::store::internal {
namespace {

using tensor::Box;
using tensor::Shape;
using ::testing::HasSubstr;

SourcePiece piece(const Box& box, uint32_t file = 0) {
  return {.file = file, .tensor = 0, .piece = {.box = box, .offset = 0, .strides = {}}};
}

// Cuts a box at random places into parts that do not overlap.
void cut(Random& random, const Box& box, int depth, std::vector<Box>& parts) {
  const int dim = static_cast<int>(random.below(box.rank));
  if (depth == 0 || box.extent(dim) < 2) {
    parts.push_back(box);
    return;
  }
  const auto d = static_cast<size_t>(dim);
  Box low = box, high = box;
  low.hi[d] = high.lo[d] = random.between(box.lo[d] + 1, box.hi[d] - 1);
  cut(random, low, depth - 1, parts);
  cut(random, high, depth - 1, parts);
}

TEST(PieceIndex, FindsEveryPieceThatABoxTouches) {
  const Shape shape{12, 9, 7};
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::vector<Box> parts;
    cut(random, Box::whole(shape), 5, parts);
    PieceIndex index;
    for (size_t i = parts.size(); i > 0; --i) index.add(piece(parts[i - 1], static_cast<uint32_t>(i)));
    index.add(piece(parts[0], 99));  // a replica
    ASSERT_TRUE(index.finish(shape).empty());
    EXPECT_EQ(index.pieces().size(), parts.size());
    ASSERT_EQ(index.replicas().size(), 1u);
    EXPECT_EQ(index.pieces()[index.replicas()[0].of].piece.box, parts[0]);
    Box wanted = Box::whole(shape);
    for (size_t d = 0; d < 3; ++d) {
      wanted.lo[d] = random.below(wanted.hi[d]);
      wanted.hi[d] = random.between(wanted.lo[d] + 1, wanted.hi[d]);
    }
    int64_t found = 0;
    index.find(wanted, [&](const SourcePiece& one, const Box& common) {
      EXPECT_EQ(intersect(one.piece.box, wanted), common);
      found += common.volume();
    });
    EXPECT_EQ(found, wanted.volume());
  }
}

TEST(PieceIndex, KeepsWhatIsNoAlias) {
  PieceIndex index;
  const Box box({0}, {4});
  index.add({.file = 1, .tensor = 0, .piece = {.box = box, .offset = 0, .strides = {1}}, .alias = true});
  index.add(piece(box, 2));
  index.add(piece(box, 3));
  EXPECT_TRUE(index.finish({4}).empty());
  ASSERT_EQ(index.replicas().size(), 2u);
  EXPECT_EQ(index.pieces()[0].file, 2u);
  EXPECT_EQ(index.replicas()[1].copy.file, 1u);
}

TEST(PieceIndex, NamesGapsAndOverlaps) {
  PieceIndex gap;
  gap.add(piece(Box({0, 0}, {4, 8})));
  gap.add(piece(Box({4, 0}, {8, 5})));
  const auto missing = gap.finish({8, 8});
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_THAT(missing[0].text, HasSubstr("box [4:8, 5:8]: is in no file"));
  EXPECT_FALSE(missing[0].where.has_value());

  PieceIndex overlap;
  overlap.add(piece(Box({0, 0}, {8, 5}), 1));
  overlap.add(piece(Box({3, 4}, {8, 8}), 2));
  const auto twice = overlap.finish({8, 8});
  ASSERT_FALSE(twice.empty());
  EXPECT_EQ(twice[0].text, "box [3:8, 4:8] overlaps box [0:8, 0:5]");
  EXPECT_EQ(twice[0].where->file, 2u);

  PieceIndex nothing;
  EXPECT_EQ(nothing.finish({2}).size(), 1u);
  PieceIndex empty;
  EXPECT_TRUE(empty.finish({0, 3}).empty());
  PieceIndex scalar;
  scalar.add(piece(Box()));
  EXPECT_TRUE(scalar.finish({}).empty());
  int visits = 0;
  scalar.find(Box(), [&](const SourcePiece&, const Box&) { ++visits; });
  EXPECT_EQ(visits, 1);
}

}  // namespace
}  // namespace scalai::store::internal
