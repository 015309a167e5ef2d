#include "executor/state/copy.h"

#include <gtest/gtest.h>

#include <vector>

#include "executor/state/runs.h"
#include "executor/state/testing/support.h"
#include "ptc/state/tensor/convert.h"

namespace scalai::executor::state {
namespace {
using tensor::Shape;

// Copies element by element; the plain meaning of copy_box.
void copy_reference(const Box& part, const Source& src, const Target& dst) {
  for (const Index& index : indices_of(part)) {
    convert(src.dtype, dst.dtype, 1, src.data + position_in(src.box, index) * tensor::size_of(src.dtype),
            dst.data + position_in(dst.box, index) * tensor::size_of(dst.dtype));
  }
}

// The same bytes everywhere, also outside of the part.
void expect_like_reference(Random& random, const Box& part, const Box& src_box, DType src_type, const Box& dst_box,
                           DType dst_type) {
  const std::vector<std::byte> src = random_bytes(random, src_box.volume() * tensor::size_of(src_type));
  std::vector<std::byte> seen = random_bytes(random, dst_box.volume() * tensor::size_of(dst_type));
  std::vector<std::byte> expected = seen;
  copy_reference(part, {src_box, src_type, src.data()}, {dst_box, dst_type, expected.data()});
  copy_box(part, {src_box, src_type, src.data()}, {dst_box, dst_type, seen.data()});
  ASSERT_TRUE(seen == expected) << part.str() << " from " << src_box.str() << " " << name_of(src_type) << " to "
                                << dst_box.str() << " " << name_of(dst_type);
}

TEST(Copy, EveryPairOfSmallBoxes) {
  Random random(1);
  for (const Shape& grid : {Shape{}, Shape{5}, Shape{3, 4}, Shape{2, 2, 3}}) {
    const std::vector<Box> boxes = boxes_in(grid);
    for (const Box& src : boxes) {
      for (const Box& dst : boxes) {
        const std::optional<Box> part = tensor::intersect(src, dst);
        if (part) expect_like_reference(random, *part, src, DType::kBF16, dst, DType::kBF16);
      }
    }
  }
}

TEST(Copy, RandomBoxesOfEveryRankAndType) {
  const uint64_t seed = 2;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const DType floats[] = {DType::kF8E4M3, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  for (int i = 0; i < 3000; ++i) {
    Box whole;
    whole.rank = static_cast<int8_t>(random.between(1, tensor::kMaxRank));
    for (size_t d = 0; d < static_cast<size_t>(whole.rank); ++d)
      whole.hi[d] = random.between(1, whole.rank > 3 ? 5 : 20);
    const Box part = random_box(random, whole);
    // Both arrays reach from somewhere before the part to somewhere after it.
    Box around[2] = {part, part};
    for (Box& box : around) {
      for (size_t d = 0; d < static_cast<size_t>(whole.rank); ++d) {
        if (random.below(2) == 0) box.lo[d] = random.between(0, part.lo[d]);
        if (random.below(2) == 0) box.hi[d] = random.between(part.hi[d], whole.hi[d]);
      }
    }
    const auto type = static_cast<DType>(random.below(15));
    expect_like_reference(random, part, around[0], type, around[1], type);
    expect_like_reference(random, part, around[0], floats[random.below(5)], around[1], floats[random.below(5)]);
  }
}

// Runs of each length that has code of its own, and of those beside them.
TEST(Copy, RunsOfEveryLength) {
  Random random(3);
  for (int64_t run = 1; run <= 300; ++run) {
    const Box part({1, 2}, {4, 2 + run});
    expect_like_reference(random, part, Box({0, 0}, {4, run + 5}), DType::kU8, Box({1, 1}, {5, run + 3}), DType::kU8);
  }
}

TEST(Copy, PackAndUnpack) {
  Random random(4);
  const Box box({0, 0, 0}, {4, 6, 8});
  const Box part({1, 2, 3}, {4, 5, 7});
  const std::vector<std::byte> src = random_bytes(random, box.volume() * 2);
  std::vector<std::byte> wire(static_cast<size_t>(packed_bytes(part, DType::kF32)));
  pack_box(part, {box, DType::kBF16, src.data()}, DType::kF32, wire.data());
  std::vector<std::byte> dst(src.size());
  unpack_box(part, DType::kF32, wire.data(), {box, DType::kBF16, dst.data()});
  std::vector<std::byte> expected(src.size());
  copy_reference(part, {box, DType::kBF16, src.data()}, {box, DType::kBF16, expected.data()});
  // A widened NaN is quiet when it comes back; all others are the same bits.
  for (size_t i = 0; i + 1 < dst.size(); i += 2) {
    uint16_t before = 0;
    uint16_t after = 0;
    std::memcpy(&before, expected.data() + i, 2);
    std::memcpy(&after, dst.data() + i, 2);
    if ((before & 0x7fff) > 0x7f80) before |= 0x40;
    ASSERT_EQ(after, before) << i;
  }
  EXPECT_EQ(packed_bytes(part, DType::kF32), 3 * 3 * 4 * 4);
}

TEST(Copy, AnEmptyPartIsNothingToDo) {
  std::byte untouched{7};
  copy_box(Box({1}, {1}), {Box({0}, {1}), DType::kU8, nullptr}, {Box({0}, {1}), DType::kU8, &untouched});
  EXPECT_EQ(untouched, std::byte{7});
}

TEST(Runs, MergeWhatIsContiguousInBoth) {
  const Box whole({0, 0, 0}, {4, 6, 8});
  EXPECT_EQ(internal::runs_of(whole, whole, whole).loops, 0);
  EXPECT_EQ(internal::runs_of(whole, whole, whole).length, 4 * 6 * 8);
  // Whole rows of both: one loop over the first dimension, the two others are one run.
  const Box rows({0, 0, 0}, {4, 3, 8});
  const internal::Runs runs = internal::runs_of(rows, whole, rows);
  EXPECT_EQ(runs.loops, 1);
  EXPECT_EQ(runs.length, 3 * 8);
  EXPECT_EQ(runs.loop[0].count, 4);
  // A column: its two outer dimensions are one loop.
  const Box column({0, 0, 2}, {4, 6, 5});
  EXPECT_EQ(internal::runs_of(column, whole, column).loops, 1);
  EXPECT_EQ(internal::runs_of(column, whole, column).loop[0].count, 24);
  EXPECT_EQ(internal::runs_of(column, whole, column).length, 3);
}

TEST(CopyDeathTest, RefusesABoxOutsideItsBuffers) {
  std::byte bytes[64];
  const Box box({0}, {4});
  EXPECT_EXIT(copy_box(Box({2}, {5}), {box, DType::kU8, bytes}, {Box({0}, {9}), DType::kU8, bytes + 32}),
              testing::ExitedWithCode(70), "CHECK failed");
}

// One after the other they are what pack_box makes, and no two of them touch.
TEST(Copy, RowsAreThePartInOrder) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    Box array;
    array.rank = static_cast<int8_t>(random.between(0, 4));
    for (size_t d = 0; d < static_cast<size_t>(array.rank); ++d) array.hi[d] = random.between(1, 6);
    const Box part = random_box(random, array);
    const std::vector<std::byte> bytes = random_bytes(random, packed_bytes(array, DType::kF16));
    const std::vector<std::span<const std::byte>> rows = rows_of(part, Source{array, DType::kF16, bytes.data()});
    std::vector<std::byte> joined, packed(static_cast<size_t>(packed_bytes(part, DType::kF16)));
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(static_cast<int64_t>(rows[i].size()), row_bytes(part, array, DType::kF16));
      EXPECT_TRUE(i == 0 || rows[i].data() > rows[i - 1].data() + rows[i - 1].size());
      joined.insert(joined.end(), rows[i].begin(), rows[i].end());
    }
    pack_box(part, {array, DType::kF16, bytes.data()}, DType::kF16, packed.data());
    EXPECT_EQ(joined, packed) << part.str() << " of " << array.str();
  }
  const Box array({0, 0}, {4, 8});
  EXPECT_EQ(row_bytes(Box({1, 0}, {3, 8}), array, DType::kF32), 64) << "dense: one row";
  EXPECT_EQ(row_bytes(Box({1, 0}, {3, 7}), array, DType::kF32), 28);
}

}  // namespace
}  // namespace scalai::executor::state
