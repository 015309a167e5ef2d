#include "executor/cuda/stage_plan.h"

#include <gtest/gtest.h>

#include <set>

#include "executor/state/copy.h"
#include "executor/state/testing/support.h"

namespace scalai::executor::cuda {

using device::BoxCopy;
using tensor::Box;
using tensor::DType;

namespace {

TEST(CutBox, PartsCoverTheBoxInOrder) {
  const uint64_t seed = 21;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 500; ++round) {
    Box box;
    box.rank = static_cast<int8_t>(random.between(0, tensor::kMaxRank));
    for (size_t d = 0; d < static_cast<size_t>(box.rank); ++d) {
      box.lo[d] = random.below(4);
      box.hi[d] = box.lo[d] + random.between(1, 5);
    }
    const int64_t elements = random.between(1, box.volume() + 3);
    std::vector<state::Index> seen;
    for (const Box& part : cut_box(box, elements)) {
      ASSERT_LE(part.volume(), elements) << box.str();
      for (const state::Index& index : state::indices_of(part)) seen.push_back(index);
    }
    ASSERT_EQ(seen, state::indices_of(box)) << box.str() << " by " << elements;
  }
}

TEST(CutBox, KeepsRowsWhole) {
  const std::vector<Box> parts = cut_box(Box({0, 0}, {10, 8}), 30);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0], Box({0, 0}, {3, 8}));
  EXPECT_EQ(parts[3], Box({9, 0}, {10, 8}));
  EXPECT_EQ(cut_box(Box({5, 0}, {6, 100}), 30)[1], Box({5, 30}, {6, 60}));
  EXPECT_TRUE(cut_box(Box({3}, {3}), 1).empty());
}

struct Arrays {
  std::vector<BoxCopy> copies;
  std::vector<std::vector<std::byte>> src;
  std::vector<std::vector<std::byte>> dst;
};

Arrays random_copies(Random& random, int count, int64_t extent) {
  const DType floats[] = {DType::kF8E4M3, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  Arrays arrays;
  for (int i = 0; i < count; ++i) {
    Box whole;
    whole.rank = static_cast<int8_t>(random.between(0, 3));
    for (size_t d = 0; d < static_cast<size_t>(whole.rank); ++d) whole.hi[d] = random.between(1, extent);
    const Box part = state::random_box(random, whole);
    const bool cast = random.below(2) == 0;
    const DType from = cast ? floats[random.below(5)] : static_cast<DType>(random.below(15));
    const DType to = cast ? floats[random.below(5)] : from;
    arrays.src.push_back(state::random_bytes(random, whole.volume() * tensor::size_of(from)));
    arrays.dst.push_back(state::random_bytes(random, part.volume() * tensor::size_of(to)));
    arrays.copies.push_back({part, {whole, from, arrays.src.back().data()}, {part, to, arrays.dst.back().data()}});
  }
  return arrays;
}

void copy_all(std::span<const BoxCopy> copies) {
  for (const BoxCopy& one : copies) state::copy_box(one.part, one.src, one.dst);
}

// Both halves, one after the other through one buffer, are the copy.
TEST(PlanChunks, TheTwoHalvesAreTheCopy) {
  const uint64_t seed = 22;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 40; ++round) {
    Arrays arrays = random_copies(random, static_cast<int>(random.between(0, 12)), 20);
    copy_all(arrays.copies);
    const std::vector<std::vector<std::byte>> expected = arrays.dst;
    for (auto& bytes : arrays.dst) std::fill(bytes.begin(), bytes.end(), std::byte{0x5a});
    const int64_t room = random.between(kMinChunk, 8 * kMinChunk);
    std::vector<std::byte> stage(static_cast<size_t>(room));
    for (const StageChunk& chunk : plan_chunks(arrays.copies, room)) {
      ASSERT_LE(bytes_of(chunk), room);
      copy_all(into_stage(arrays.copies, chunk, stage.data()));
      copy_all(out_of_stage(arrays.copies, chunk, stage.data()));
    }
    ASSERT_EQ(arrays.dst, expected) << round;
  }
}

TEST(PlanChunks, PartsAreAlignedDisjointAndSmall) {
  const uint64_t seed = 23;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const Arrays arrays = random_copies(random, 1000, 30);
  const int64_t room = 4096;
  const std::vector<StageChunk> chunks = plan_chunks(arrays.copies, room);
  ASSERT_GT(chunks.size(), 10u);
  for (size_t i = 0; i < chunks.size(); ++i) {
    int64_t used = 0;
    for (const StagePart& part : chunks[i]) {
      EXPECT_EQ(part.offset % kStageAlign, 0);
      EXPECT_GE(part.offset, used);
      used = part.offset + state::packed_bytes(part.part, part.wire);
      EXPECT_LE(state::packed_bytes(part.part, part.wire), room / 4);
    }
    if (i + 1 < chunks.size()) {
      EXPECT_GE(bytes_of(chunks[i]), room / 4 * 3);
    }
  }
}

TEST(PlanChunks, TravelsInTheSmallerType) {
  const Box box({0}, {8});
  const auto wire = [&](DType from, DType to) {
    const std::vector<BoxCopy> copies = {{box, {box, from, nullptr}, {box, to, nullptr}}};
    return plan_chunks(copies, kMinChunk).front().front().wire;
  };
  EXPECT_EQ(wire(DType::kF32, DType::kBF16), DType::kBF16);
  EXPECT_EQ(wire(DType::kBF16, DType::kF32), DType::kBF16);
  EXPECT_EQ(wire(DType::kF16, DType::kBF16), DType::kF16);
}

TEST(ChunkBytes, ManyForMuchAndOneForLittle) {
  const auto bytes = [](int64_t elements, int64_t room) {
    const Box box({0}, {elements});
    const std::vector<BoxCopy> copies = {{box, {box, DType::kU8, nullptr}, {box, DType::kU8, nullptr}}};
    return chunk_bytes_for(copies, room);
  };
  EXPECT_EQ(bytes(100, 8 << 20), 1 << 20);
  EXPECT_EQ(bytes(100, 64 << 10), 64 << 10);
  EXPECT_EQ(bytes(32 << 20, 8 << 20), 4 << 20);
  EXPECT_EQ(bytes(int64_t{1} << 33, 8 << 20), 8 << 20);
}

}  // namespace
}  // namespace scalai::executor::cuda
