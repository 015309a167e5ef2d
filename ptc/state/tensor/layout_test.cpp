#include "ptc/state/tensor/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/state/tensor/dtype.h"

namespace scalai::tensor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int64_t> sizes_of(const Cut& cut, int64_t extent, int parts) {
  std::vector<int64_t> sizes;
  int64_t next = 0;
  for (int index = 0; index < parts; ++index) {
    const Range range = part_of(cut, extent, parts, index);
    EXPECT_EQ(range.begin, next) << "part " << index;
    next = range.end;
    sizes.push_back(range.end - range.begin);
  }
  EXPECT_EQ(next, extent);
  return sizes;
}

Cut cut_by(SplitRule rule) { return {.axis = "tp", .dim = 0, .rule = rule}; }

TEST(PartOf, CeilIsTorchChunk) {
  EXPECT_THAT(sizes_of(cut_by(SplitRule::kCeil), 10, 4), ElementsAre(3, 3, 3, 1));
  EXPECT_THAT(sizes_of(cut_by(SplitRule::kCeil), 10, 3), ElementsAre(4, 4, 2));
  EXPECT_THAT(sizes_of(cut_by(SplitRule::kCeil), 10, 8), ElementsAre(2, 2, 2, 2, 2, 0, 0, 0));
  EXPECT_THAT(sizes_of(cut_by(SplitRule::kCeil), 6, 4), ElementsAre(2, 2, 2, 0));
}

TEST(PartOf, BalancedGivesTheFirstOneMore) {
  EXPECT_THAT(sizes_of(cut_by(SplitRule::kBalanced), 10, 4), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(sizes_of(cut_by(SplitRule::kBalanced), 2, 4), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(sizes_of(cut_by(SplitRule::kEven), 12, 4), ElementsAre(3, 3, 3, 3));
}

TEST(PartOf, ExplicitFollowsItsBounds) {
  Cut cut = cut_by(SplitRule::kExplicit);
  cut.bounds = {0, 1, 1, 7};
  EXPECT_THAT(sizes_of(cut, 7, 3), ElementsAre(1, 0, 6));
}

TEST(PartOf, VocabularyIsPaddedToAMultipleOfEveryPart) {
  Cut cut = cut_by(SplitRule::kPadded);
  cut.multiple = 128;
  const std::map<int, int64_t> padded_size = {{1, 50304}, {2, 50432}, {3, 50304}, {4, 50688}, {8, 51200}};
  for (const auto& [tp, rows] : padded_size) {
    const std::vector<int64_t> sizes = sizes_of(cut, 50257, tp);
    int64_t padded_end = 0;
    part_of(cut, 50257, tp, tp - 1, &padded_end);
    EXPECT_EQ(padded_end, rows) << "tp " << tp;
    EXPECT_EQ(rows % (128 * tp), 0);
    EXPECT_EQ(rows - 50257, rows / tp - sizes.back()) << "only the last part has padding here";
  }
}

TEST(PartOf, WholePartsOfPaddingAreEmpty) {
  Cut cut = cut_by(SplitRule::kPadded);
  cut.multiple = 4;
  EXPECT_THAT(sizes_of(cut, 5, 4), ElementsAre(4, 1, 0, 0));
  EXPECT_THAT(sizes_of(cut, 0, 2), ElementsAre(0, 0));
  EXPECT_THAT(sizes_of(cut, 16, 4), ElementsAre(4, 4, 4, 4)) << "nothing to pad";
}

// n ranks over g groups: rank r has group r·g/n.
TEST(PartOf, GroupsAreSharedByNeighbours) {
  Cut cut = cut_by(SplitRule::kGrouped);
  cut.groups = 2;
  const std::vector<int64_t> begins = {0, 0, 0, 0, 6, 6, 6, 6};
  for (int index = 0; index < 8; ++index) {
    EXPECT_EQ(part_of(cut, 12, 8, index).begin, begins[static_cast<size_t>(index)]) << index;
    EXPECT_EQ(part_of(cut, 12, 8, index).end, begins[static_cast<size_t>(index)] + 6) << index;
  }
  cut.groups = 6;
  EXPECT_THAT(sizes_of(cut, 12, 3), ElementsAre(4, 4, 4)) << "fewer parts than groups: an even cut";
}

TEST(PartOf, BucketsCutWhatFallsIntoEachShare) {
  Cut cut = cut_by(SplitRule::kBucket);
  cut.start = 64;
  cut.bucket = 256;
  EXPECT_THAT(sizes_of(cut, 100, 4), ElementsAre(0, 64, 36, 0));
  cut.start = 10;
  EXPECT_THAT(sizes_of(cut, 100, 4), ElementsAre(54, 46, 0, 0));
  EXPECT_THAT(sizes_of(cut, 0, 4), ElementsAre(0, 0, 0, 0));
}

TEST(PartOf, ChecksTheIndex) {
  EXPECT_EXIT(part_of(cut_by(SplitRule::kEven), 4, 2, 2), testing::ExitedWithCode(70), "CHECK failed");
}

using Sizes = std::map<std::string, int>;

AxisLookup lookup_of(const Sizes& sizes, const Sizes& coordinates) {
  return [=](const std::string& axis) { return AxisPosition{sizes.at(axis), coordinates.at(axis)}; };
}

TEST(PiecesOf, TwoAxesOnTwoDimensions) {
  const Layout layout{{{.axis = "tp", .dim = 0}, {.axis = "ep", .dim = 1}}};
  const LocalBuffer local = pieces_of(layout, {4, 6}, lookup_of({{"tp", 2}, {"ep", 3}}, {{"tp", 1}, {"ep", 2}}));
  ASSERT_EQ(local.pieces.size(), 1u);
  EXPECT_EQ(local.pieces[0].box, Box({2, 4}, {4, 6}));
  EXPECT_EQ(local.elements, 4);
  EXPECT_EQ(local.pieces[0].strides[0], 2);
}

TEST(PiecesOf, SecondAxisDividesWhatTheFirstLeft) {
  const Layout layout{{{.axis = "tp", .dim = 0}, {.axis = "dp", .dim = 0, .rule = SplitRule::kBalanced}}};
  const LocalBuffer local = pieces_of(layout, {10}, lookup_of({{"tp", 2}, {"dp", 2}}, {{"tp", 1}, {"dp", 0}}));
  EXPECT_EQ(local.pieces.at(0).box, Box({5}, {8}));
}

TEST(PiecesOf, PaddingIsInTheBufferButNotInThePieces) {
  Layout layout{{{.axis = "tp", .dim = 0, .rule = SplitRule::kPadded, .multiple = 4}}};
  for (int rank = 0; rank < 3; ++rank) {
    SCOPED_TRACE(testing::Message() << "rank " << rank);
    const LocalBuffer local = pieces_of(layout, {5, 2}, lookup_of({{"tp", 3}}, {{"tp", rank}}));
    EXPECT_EQ(local.elements, 8) << "every rank has a block of 4 rows";
    EXPECT_EQ(local.pieces.size(), rank < 2 ? 1u : 0u);
  }
}

TEST(PiecesOf, FlatShardIsOneRunOfBoxes) {
  const Layout layout{{{.axis = "tp", .dim = 0}, {.axis = "dp", .dim = Cut::kFlat, .rule = SplitRule::kBalanced}}};
  const LocalBuffer local = pieces_of(layout, {4, 5}, lookup_of({{"tp", 2}, {"dp", 3}}, {{"tp", 1}, {"dp", 1}}));
  ASSERT_EQ(local.pieces.size(), 2u);  // elements 4 to 6 of rows 2 and 3
  EXPECT_EQ(local.pieces[0].box, Box({2, 4}, {3, 5}));
  EXPECT_EQ(local.pieces[1].box, Box({3, 0}, {4, 2}));
  EXPECT_EQ(local.pieces[1].offset, 1);
  EXPECT_EQ(local.elements, 3);
}

TEST(PiecesOf, ScalarAndNoCutsAreWholeEverywhere) {
  const LocalBuffer scalar = pieces_of({}, {}, lookup_of({}, {}));
  EXPECT_EQ(scalar.elements, 1);
  EXPECT_EQ(scalar.pieces.at(0).box, Box::whole(Shape()));
  EXPECT_EQ(pieces_of({}, {2, 3}, lookup_of({}, {})).pieces.at(0).box, Box({0, 0}, {2, 3}));
}

// Places of a piece's elements in the local buffer, row-major over the box.
std::vector<int64_t> places_of(const Piece& piece) {
  std::vector<int64_t> places = {piece.offset};
  for (int dim = 0; dim < piece.box.rank; ++dim) {
    std::vector<int64_t> next;
    for (const int64_t place : places) {
      for (int64_t i = 0; i < piece.box.extent(dim); ++i)
        next.push_back(place + i * piece.strides[static_cast<size_t>(dim)]);
    }
    places = std::move(next);
  }
  return places;
}

Layout random_layout(Random& random, const Shape& shape, Sizes& sizes) {
  Layout layout;
  const std::vector<SplitRule> rules = {SplitRule::kBalanced, SplitRule::kCeil, SplitRule::kPadded};
  for (const std::string axis : {"tp", "ep", "dp"}) {
    sizes[axis] = static_cast<int>(random.between(1, 4));
    if (random.below(4) == 0) continue;
    Cut cut{.axis = axis,
            .dim = static_cast<int>(random.below(shape.rank())),
            .rule = rules[static_cast<size_t>(random.below(3))]};
    cut.multiple = random.between(1, 3);
    if (axis == "dp" && random.below(2) == 0) cut.dim = Cut::kFlat;
    layout.cuts.push_back(cut);
  }
  return layout;
}

// Over all coordinates of the axes that are cut, every element is in exactly one piece, and a buffer's pieces neither
// overlap nor leave the buffer.
TEST(PiecesOf, RandomLayoutsPartitionTheTensor) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Shape shape{random.between(1, 6), random.between(1, 6), random.between(1, 3)};
    Sizes sizes;
    const Layout layout = random_layout(random, shape, sizes);
    ASSERT_TRUE(validate(
                    layout, shape, [&](const std::string& axis) { return sizes.at(axis); }, "t")
                    .ok());
    Sizes used;
    for (const Cut& cut : layout.cuts) used[cut.axis] = sizes[cut.axis];
    std::vector<Sizes> ranks(1);
    for (const auto& [axis, size] : used) {
      std::vector<Sizes> longer;
      for (const Sizes& rank : ranks) {
        for (int c = 0; c < size; ++c) (longer.emplace_back(rank))[axis] = c;
      }
      ranks = std::move(longer);
    }
    std::vector<Box> boxes;
    int64_t volume = 0;
    for (const Sizes& rank : ranks) {
      const LocalBuffer local = pieces_of(layout, shape, lookup_of(used, rank));
      std::set<int64_t> places;
      for (const Piece& piece : local.pieces) {
        EXPECT_FALSE(piece.box.empty());
        boxes.push_back(piece.box);
        volume += piece.box.volume();
        for (const int64_t place : places_of(piece)) {
          EXPECT_TRUE(places.insert(place).second);
          EXPECT_TRUE(0 <= place && place < local.elements) << place << " of " << local.elements;
        }
      }
    }
    EXPECT_EQ(volume, shape.elements());
    EXPECT_TRUE(subtract(Box::whole(shape), boxes).empty());
  }
}

std::string problem_of(const Layout& layout, const Shape& shape, int axis_size) {
  return message_of(validate(
      layout, shape, [&](const std::string&) { return axis_size; }, "w"));
}

TEST(ValidateLayout, RefusesWhatItCannotMean) {
  EXPECT_EQ(problem_of({{{.axis = "tp", .dim = 0}}}, {8, 3}, 4), "");
  EXPECT_THAT(problem_of({{{.axis = "tp", .dim = 0}}}, {10, 3}, 4),
              testing::AllOf(HasSubstr("tensor \"w\" [10, 3]"), HasSubstr("tp"), HasSubstr("10 does not divide by 4")));
  EXPECT_THAT(problem_of({{{.axis = "tp", .dim = 2}}}, {10, 3}, 1), HasSubstr("there is no dimension 2"));
  EXPECT_THAT(problem_of({{{.axis = "tp", .dim = 0}, {.axis = "tp", .dim = 1}}}, {4, 4}, 2), HasSubstr("cut twice"));
  EXPECT_THAT(problem_of({{{.axis = "tp", .rule = SplitRule::kPadded, .multiple = 0}}}, {4}, 2), HasSubstr("below 1"));
  EXPECT_THAT(problem_of({{{.axis = "dp", .dim = Cut::kFlat}, {.axis = "tp", .dim = 0}}}, {4, 4}, 2),
              HasSubstr("a flat cut must be the last"));
}

TEST(ValidateLayout, ExplicitBoundsRiseFromZeroToTheExtent) {
  const auto with = [](std::vector<int64_t> bounds) {
    return Layout{{{.axis = "tp", .dim = 0, .rule = SplitRule::kExplicit, .bounds = std::move(bounds)}}};
  };
  EXPECT_EQ(problem_of(with({0, 1, 6}), {6}, 2), "");
  for (const auto& bad : {with({}), with({0, 6}), with({1, 2, 6}), with({0, 2, 5}), with({0, 7, 6})}) {
    EXPECT_THAT(problem_of(bad, {6}, 2), HasSubstr("do not rise from 0 to 6 in 2 parts"));
  }
}

TEST(ValidateLayout, GroupsAndBucketsShareOut) {
  const auto grouped = [](int64_t groups) {
    return Layout{{{.axis = "tp", .rule = SplitRule::kGrouped, .groups = groups}}};
  };
  EXPECT_EQ(problem_of(grouped(2), {12}, 4), "");
  EXPECT_EQ(problem_of(grouped(4), {12}, 2), "");
  EXPECT_THAT(problem_of(grouped(5), {12}, 5), HasSubstr("12 is not 5 groups"));
  EXPECT_THAT(problem_of(grouped(0), {12}, 5), HasSubstr("12 is not 0 groups"));
  EXPECT_THAT(problem_of(grouped(3), {12}, 4), HasSubstr("3 groups do not share out over 4 parts"));
  const auto bucket = [](int64_t start, int64_t elements) {
    return Layout{{{.axis = "dp", .dim = Cut::kFlat, .rule = SplitRule::kBucket, .start = start, .bucket = elements}}};
  };
  EXPECT_EQ(problem_of(bucket(4, 16), {3, 4}, 4), "");
  EXPECT_THAT(problem_of(bucket(5, 16), {3, 4}, 4), HasSubstr("12 elements from 5 do not fit a bucket of 16"));
  EXPECT_THAT(problem_of(bucket(-1, 16), {3, 4}, 4), HasSubstr("do not fit"));
  EXPECT_THAT(problem_of(bucket(0, 18), {3, 4}, 4), HasSubstr("a bucket of 18 does not divide by 4"));
}

TEST(ValidateLayout, AnAxisInsideAProductIsCutOnce) {
  EXPECT_THAT(axes_of("cp+dp"), ElementsAre("cp", "dp"));
  EXPECT_THAT(axes_of("tp"), ElementsAre("tp"));
  const Layout layout{{{.axis = "dp", .dim = 0}, {.axis = "cp+dp", .dim = 1}}};
  EXPECT_THAT(problem_of(layout, {4, 4}, 2), HasSubstr("cut twice"));
  const auto problem = find_problem(layout, {4, 4}, [](const std::string&) { return 2; });
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->cut, 1u);
}

TEST(ValidateLayout, LooksAtEveryPartOfAnUnevenCut) {
  const Layout layout{{{.axis = "tp", .dim = 0, .rule = SplitRule::kBalanced}, {.axis = "dp", .dim = 0}}};
  EXPECT_THAT(problem_of(layout, {7}, 2), HasSubstr("3 does not divide by 2"));  // 7 = 4 + 3
}

TEST(DType, NamesAndSizesAreSafetensors) {
  EXPECT_EQ(size_of(DType::kBF16), 2);
  EXPECT_EQ(size_of(DType::kU64), 8);
  for (int i = 0; i <= static_cast<int>(DType::kU64); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name_of(dtype)).value(), dtype);
  }
  EXPECT_THAT(message_of(parse_dtype("bf16").status()), HasSubstr("unknown dtype \"bf16\""));
}

}  // namespace
}  // namespace scalai::tensor
