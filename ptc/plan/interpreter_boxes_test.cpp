#include "ptc/plan/internal/interpreter_boxes.h"

#include <gtest/gtest.h>

#include <set>

#include "ptc/base/random.h"

namespace scalai::plan::internal {
namespace {

using tensor::Box;

Box random_box(Random& random, int rank, int64_t extent) {
  Box box;
  box.rank = static_cast<int8_t>(rank);
  for (size_t dim = 0; dim < static_cast<size_t>(rank); ++dim) {
    box.lo[dim] = random.below(extent);
    box.hi[dim] = random.between(box.lo[dim] + 1, extent);
  }
  return box;
}

std::set<int64_t> elements(const Box& box) {
  std::set<int64_t> found = {0};
  for (int dim = 0; dim < box.rank; ++dim) {
    std::set<int64_t> longer;
    for (const int64_t prefix : found) {
      for (int64_t i = box.lo[static_cast<size_t>(dim)]; i < box.hi[static_cast<size_t>(dim)]; ++i)
        longer.insert(prefix * 100 + i);
    }
    found = std::move(longer);
  }
  return found;
}

int64_t common(const std::set<int64_t>& a, const std::set<int64_t>& b) {
  return std::count_if(a.begin(), a.end(), [&](int64_t element) { return b.contains(element); });
}

// Against sets of elements; short lists and long ones, which are searched in different ways.
TEST(InterpreterBoxes, AgreeWithElements) {
  int clashes = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const int rank = static_cast<int>(random.below(4));
    const auto count = random.below(20);
    BoxList list;
    list.add(random_box(random, rank, 7));
    list.prepare();
    list.clear();
    std::set<int64_t> all;
    int64_t sum = 0;
    const Box asked = random_box(random, rank, 7);
    bool twice = false, has = false;
    for (int64_t i = 0; i < count; ++i) {
      const Box box = random_box(random, rank, 7);
      const std::set<int64_t> mine = elements(box);
      EXPECT_EQ(static_cast<int64_t>(mine.size()), elements_in(box));
      twice = twice || common(mine, all) > 0;
      has = has || box == asked;
      sum += common(mine, elements(asked));
      all.insert(mine.begin(), mine.end());
      list.add(box);
    }
    list.prepare();
    EXPECT_EQ(list.empty(), count == 0);
    EXPECT_EQ(list.covered(asked), sum);
    EXPECT_EQ(list.uncovered(asked), elements_in(asked) - common(elements(asked), all));
    EXPECT_EQ(uncovered(asked, list.boxes()), list.uncovered(asked));
    EXPECT_EQ(list.has(asked), has);
    ASSERT_EQ(list.clash().has_value(), twice);
    if (!twice) continue;
    ++clashes;
    EXPECT_TRUE(common_part(list.boxes()[list.clash()->first], list.boxes()[list.clash()->second]).has_value());
  }
  EXPECT_GT(clashes, 100);
  EXPECT_LT(clashes, 390);
}

}  // namespace
}  // namespace scalai::plan::internal
