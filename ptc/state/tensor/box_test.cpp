#include "ptc/state/tensor/box.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ptc/base/random.h"
#include "ptc/state/tensor/box_chunks.h"

namespace scalai::tensor {
namespace {

using Index = std::array<int64_t, kMaxRank>;

// All indices of a box in row-major order: the plain meaning of a box.
std::vector<Index> elements_of(const Box& box) {
  std::vector<Index> elements;
  if (box.empty()) return elements;
  Index at = box.lo;
  while (true) {
    elements.push_back(at);
    int dim = box.rank - 1;
    for (; dim >= 0; --dim) {
      const auto d = static_cast<size_t>(dim);
      if (++at[d] < box.hi[d]) break;
      at[d] = box.lo[d];
    }
    if (dim < 0) return elements;
  }
}

std::set<Index> set_of(const Box& box) {
  const std::vector<Index> elements = elements_of(box);
  return {elements.begin(), elements.end()};
}

// The union; fails when two boxes share an element.
std::set<Index> disjoint_union(const std::vector<Box>& boxes) {
  std::set<Index> all;
  for (const Box& box : boxes) {
    for (const Index& index : elements_of(box)) EXPECT_TRUE(all.insert(index).second) << box.str() << " overlaps";
  }
  return all;
}

// Every box inside a grid, empty ones included.
std::vector<Box> boxes_in(const Shape& grid) {
  std::vector<Box> boxes(1);
  boxes.front().rank = static_cast<int8_t>(grid.rank());
  for (int dim = 0; dim < grid.rank(); ++dim) {
    std::vector<Box> longer;
    for (const Box& box : boxes) {
      for (int64_t lo = 0; lo <= grid[dim]; ++lo) {
        for (int64_t hi = lo; hi <= grid[dim]; ++hi) {
          longer.push_back(box);
          longer.back().lo[static_cast<size_t>(dim)] = lo;
          longer.back().hi[static_cast<size_t>(dim)] = hi;
        }
      }
    }
    boxes = std::move(longer);
  }
  return boxes;
}

Box random_box(Random& random, const Shape& grid) {
  Box box = Box::whole(grid);
  for (int dim = 0; dim < grid.rank(); ++dim) {
    const auto d = static_cast<size_t>(dim);
    box.lo[d] = random.below(grid[dim]);
    box.hi[d] = random.between(box.lo[d] + 1, grid[dim]);
  }
  return box;
}

template <class T>
void shuffle(Random& random, std::vector<T>& values) {
  for (size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
}

const std::vector<Shape> kGrids = {{4}, {3, 3}, {2, 3, 2}};

TEST(Shape, CountsElementsAndStrides) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape({3, 0, 2}).elements(), 0);
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape.strides(), (std::array<int64_t, kMaxRank>{12, 4, 1, 0, 0}));
  EXPECT_EQ(shape.str(), "[2, 3, 4]");
  EXPECT_EQ(Shape().str(), "[]");
}

TEST(Shape, ChecksItsExtents) {
  EXPECT_EXIT(Shape({1, -1}), testing::ExitedWithCode(70), "CHECK failed");
  EXPECT_EXIT(Shape({1, 1, 1, 1, 1, 1}), testing::ExitedWithCode(70), "rank 6");
}

// Found by collection_fuzz: 2^62 · 4 overflows to 0, and what is empty lies in any box.
TEST(Box, OneWithMoreElementsThanCanBeCountedIsNotEmpty) {
  const Box huge({0, 0}, {int64_t{1} << 62, 4});
  EXPECT_EQ(huge.volume(), std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(Box({0, 0}, {6, 4}).contains(huge));
  EXPECT_EQ(Box({0, 0}, {int64_t{1} << 62, 0}).volume(), 0);
}

TEST(Box, ScalarHoldsOneElement) {
  const Box scalar = Box::whole(Shape());
  EXPECT_EQ(scalar.volume(), 1);
  EXPECT_EQ(scalar.str(), "[]");
  EXPECT_EQ(intersect(scalar, scalar), scalar);
  EXPECT_TRUE(scalar.contains(scalar));
  EXPECT_TRUE(subtract(scalar, scalar).empty());
  EXPECT_EQ(merge({scalar}), std::vector<Box>{scalar});
  EXPECT_EQ(decompose_flat(scalar, 0, 1), std::vector<Box>{scalar});
  EXPECT_TRUE(decompose_flat(scalar, 1, 1).empty());
}

TEST(Box, PrintsAndOrdersByLowThenHigh) {
  EXPECT_EQ(Box({0, 2}, {256, 5}).str(), "[0:256, 2:5]");
  EXPECT_LT(Box({0, 2}, {9, 9}), Box({1, 0}, {2, 2}));
  EXPECT_LT(Box({0, 0}, {1, 2}), Box({0, 0}, {2, 1}));
  EXPECT_EQ(Box({1, 2}, {4, 2}).shape(), Shape({3, 0}));
}

TEST(Box, ParsesWhatItPrints) {
  for (const Box& box : {Box(), Box({0}, {0}), Box({0, 4}, {2, 4}), Box({1, 2, 3, 4, 5}, {6, 7, 8, 9, 10})}) {
    EXPECT_EQ(parse_box(box.str()), box) << box.str();
  }
  EXPECT_EQ(parse_box(" [ 0 : 4,2:3 ]"), Box({0, 2}, {4, 3}));
  for (const std::string bad : {"", "[", "[0:1", "[0:1]]", "[0]", "[1:0]", "[-1:2]", "[0:1 2:3]", "[0:1,]", "0:1",
                                "[a:b]", "[0:99999999999999999999]", "[0:1, 0:1, 0:1, 0:1, 0:1, 0:1]"}) {
    EXPECT_EQ(parse_box(bad), std::nullopt) << bad;
  }
}

TEST(Box, IntersectContainsAndSubtractAgreeWithElementSets) {
  for (const Shape& grid : kGrids) {
    const std::vector<Box> boxes = boxes_in(grid);
    std::vector<std::set<Index>> sets;
    for (const Box& box : boxes) sets.push_back(set_of(box));
    for (size_t i = 0; i < boxes.size(); ++i) {
      ASSERT_EQ(boxes[i].volume(), static_cast<int64_t>(sets[i].size()));
      for (size_t j = 0; j < boxes.size(); ++j) {
        std::set<Index> both, only;
        std::set_intersection(sets[i].begin(), sets[i].end(), sets[j].begin(), sets[j].end(),
                              std::inserter(both, both.end()));
        std::set_difference(sets[i].begin(), sets[i].end(), sets[j].begin(), sets[j].end(),
                            std::inserter(only, only.end()));
        const auto common = intersect(boxes[i], boxes[j]);
        ASSERT_EQ(common ? set_of(*common) : std::set<Index>{}, both) << boxes[i].str() << " and " << boxes[j].str();
        ASSERT_EQ(common.has_value(), !both.empty());
        ASSERT_EQ(boxes[i].contains(boxes[j]), both.size() == sets[j].size())
            << boxes[i].str() << " and " << boxes[j].str();
        const std::vector<Box> rest = subtract(boxes[i], boxes[j]);
        ASSERT_EQ(disjoint_union(rest), only) << boxes[i].str() << " minus " << boxes[j].str();
        ASSERT_LE(rest.size(), static_cast<size_t>(2 * grid.rank()));
        ASSERT_TRUE(std::is_sorted(rest.begin(), rest.end()));
      }
    }
  }
}

TEST(Box, SubtractCutsLeadingDimensionsFirst) {
  EXPECT_EQ(subtract(Box({0, 0}, {4, 4}), Box({1, 1}, {3, 3})),
            (std::vector<Box>{{{0, 0}, {1, 4}}, {{1, 0}, {3, 1}}, {{1, 3}, {3, 4}}, {{3, 0}, {4, 4}}}));
}

TEST(Box, ManyBoxesAgreeWithElementSets) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Shape grid{random.between(1, 5), random.between(1, 5), random.between(1, 5)};
    std::vector<Box> others;
    std::set<Index> covered;
    for (int64_t i = random.below(6); i > 0; --i) {
      others.push_back(random_box(random, grid));
      covered.merge(set_of(others.back()));
    }
    const Box box = random_box(random, grid);
    std::set<Index> expected;
    for (const Index& index : elements_of(box)) {
      if (covered.count(index) == 0) expected.insert(index);
    }
    const std::vector<Box> rest = subtract(box, others);
    EXPECT_EQ(disjoint_union(rest), expected);
    EXPECT_TRUE(std::is_sorted(rest.begin(), rest.end()));
  }
}

// True when the two boxes together are a box.
bool mergeable(const Box& a, const Box& b) {
  Box hull = a;
  for (size_t dim = 0; dim < static_cast<size_t>(a.rank); ++dim) {
    hull.lo[dim] = std::min(a.lo[dim], b.lo[dim]);
    hull.hi[dim] = std::max(a.hi[dim], b.hi[dim]);
  }
  return hull.volume() == a.volume() + b.volume();
}

TEST(Box, MergeKeepsTheElementsAndLeavesNothingToMerge) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Shape grid{random.between(1, 4), random.between(1, 4), random.between(1, 4)};
    std::vector<Box> boxes = {Box::whole(grid)};  // cut up at random, some parts dropped
    for (int cut = 0; cut < 4; ++cut) {
      const Box knife = random_box(random, grid);
      std::vector<Box> next;
      for (const Box& box : boxes) {
        for (const Box& part : subtract(box, knife)) next.push_back(part);
        if (const auto common = intersect(box, knife); common && random.below(4) != 0) next.push_back(*common);
      }
      boxes = std::move(next);
    }
    const std::vector<Box> merged = merge(boxes);
    EXPECT_EQ(disjoint_union(merged), disjoint_union(boxes));
    EXPECT_TRUE(std::is_sorted(merged.begin(), merged.end()));
    for (size_t i = 0; i < merged.size(); ++i) {
      for (size_t j = 0; j < i; ++j)
        EXPECT_FALSE(mergeable(merged[i], merged[j])) << merged[i].str() << merged[j].str();
    }
    shuffle(random, boxes);
    EXPECT_EQ(merge(boxes), merged);
  }
}

TEST(Box, MergeOfAGridOfCellsIsOneBox) {
  std::vector<Box> cells;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 4; ++j) cells.push_back({{i, j}, {i + 1, j + 1}});
  }
  EXPECT_EQ(merge(cells), (std::vector<Box>{{{0, 0}, {3, 4}}}));
  EXPECT_TRUE(merge({}).empty());
  EXPECT_TRUE(merge({Box({0}, {0}), Box({2}, {2})}).empty());
}

TEST(Box, DecomposeFlatIsTheRowMajorRange) {
  const std::vector<Shape> shapes = {{5}, {3, 4}, {1, 4}, {4, 1}, {2, 3, 2}, {3, 1, 3}, {2, 2, 2, 3}, {2, 2, 1, 2, 2}};
  for (const Shape& shape : shapes) {
    Box within = Box::whole(shape);
    for (int dim = 0; dim < shape.rank(); ++dim) {  // away from the origin
      within.lo[static_cast<size_t>(dim)] += dim + 1;
      within.hi[static_cast<size_t>(dim)] += dim + 1;
    }
    const std::vector<Index> elements = elements_of(within);
    for (int64_t begin = 0; begin <= shape.elements(); ++begin) {
      for (int64_t end = begin; end <= shape.elements(); ++end) {
        const std::vector<Box> boxes = decompose_flat(within, begin, end);
        std::vector<Index> range;
        for (const Box& box : boxes) {
          for (const Index& index : elements_of(box)) range.push_back(index);
        }
        ASSERT_EQ(range, std::vector<Index>(elements.begin() + begin, elements.begin() + end))
            << within.str() << " from " << begin << " to " << end;
        ASSERT_LE(boxes.size(), static_cast<size_t>(2 * shape.rank() - 1));
      }
    }
  }
}

TEST(Box, DecomposeFlatChecksItsRange) {
  const Box box({0}, {4});
  EXPECT_EXIT(decompose_flat(box, 3, 5), testing::ExitedWithCode(70), "CHECK failed");
  EXPECT_EXIT(decompose_flat(box, 3, 2), testing::ExitedWithCode(70), "CHECK failed");
}

TEST(BoxChunks, TogetherAreTheBox) {
  for (int64_t most = 1; most < 130; ++most) {
    const Box box({1, 2, 3}, {5, 7, 9});
    int64_t volume = 0;
    std::vector<Box> parts;
    EXPECT_TRUE(for_each_chunk(box, most, [&](const Box& part) {
                  EXPECT_LE(part.volume(), most);
                  EXPECT_TRUE(box.contains(part));
                  volume += part.volume();
                  parts.push_back(part);
                  return absl::OkStatus();
                }).ok());
    EXPECT_EQ(volume, box.volume());
    EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end())) << "row-major";
    EXPECT_TRUE(subtract(box, parts).empty());
  }
}

}  // namespace
}  // namespace scalai::tensor
