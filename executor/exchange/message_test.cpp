#include "executor/exchange/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "executor/state/copy.h"
#include "ptc/base/random.h"

namespace scalai::executor::exchange {

using tensor::Box;
using tensor::DType;

namespace {

// A box of up to three dimensions.
Box random_box(Random& random) {
  Box box;
  box.rank = static_cast<int8_t>(random.below(4));
  for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) {
    box.lo[dim] = random.between(0, 5);
    box.hi[dim] = box.lo[dim] + random.between(1, dim == 0 ? 40 : 9);
  }
  return box;
}

// The tensor that such boxes are of.
tensor::Shape cube(int rank) {
  const std::vector<int64_t> extents(static_cast<size_t>(rank), 64);
  return tensor::Shape{std::span<const int64_t>(extents)};
}

// Boxes of one end, in pieces of buffers that are larger than the boxes.
class End {
 public:
  End(const std::vector<std::pair<Box, DType>>& boxes, Random& random) {
    memory_.reserve(boxes.size() * 2);
    for (const auto& [box, wire] : boxes) {
      WireBox one{box, wire, {}};
      std::vector<Box> parts = {box};
      if (box.rank > 0 && box.extent(0) > 1 && random.below(2) == 0) {
        parts = {box, box};
        parts[0].hi[0] = parts[1].lo[0] = random.between(box.lo[0] + 1, box.hi[0] - 1);
      }
      for (const Box& part : parts) {
        Box around = part;
        for (size_t dim = 0; dim < static_cast<size_t>(part.rank) && random.below(2) == 0; ++dim) {
          around.lo[dim] -= random.between(0, around.lo[dim]);
          around.hi[dim] += random.between(0, 3);
        }
        const DType dtype = wire == DType::kBF16 && random.below(2) == 0 ? DType::kF32 : wire;
        memory_.emplace_back(static_cast<size_t>(state::packed_bytes(around, dtype)));
        one.held.push_back({part, {around, dtype, memory_.back().data()}});
      }
      boxes_.push_back(std::move(one));
    }
  }
  const std::vector<WireBox>& boxes() const { return boxes_; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<WireBox> boxes_;
};

void run(const std::vector<device::BoxCopy>& batch) {
  for (const device::BoxCopy& one : batch) state::copy_box(one.part, one.src, one.dst);
}

TEST(Message, ArrivesWhateverTheChunksAndThePieces) {
  int dense = 0, packed = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    std::vector<std::pair<Box, DType>> list(static_cast<size_t>(random.between(0, 6)));
    for (auto& [box, dtype] : list) {
      box = random_box(random);
      dtype = std::array{DType::kBF16, DType::kF32, DType::kU8, DType::kI64}[random.below(4)];
    }
    const End sender(list, random), receiver(list, random);
    int64_t number = 0;
    for (const WireBox& box : sender.boxes()) {
      const state::Content content{{static_cast<uint64_t>(++number)}, cube(box.box.rank), 3, box.wire};
      for (const WireBox::Held& held : box.held) state::fill_box(content, held.part, held.at);
    }
    const int64_t chunk_bytes = random.between(16, 600);
    const std::vector<Chunk> out = cut(sender.boxes(), chunk_bytes), in = cut(receiver.boxes(), chunk_bytes);
    ASSERT_EQ(out.size(), in.size());
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i].bytes, in[i].bytes);
      ASSERT_LE(out[i].bytes, chunk_bytes);
      std::vector<std::byte> wire(static_cast<size_t>(out[i].bytes));
      std::vector<device::BoxCopy> batch;
      if (const std::byte* at = dense_at(sender.boxes(), out[i])) {
        std::copy(at, at + out[i].bytes, wire.begin());
        ++dense;
      } else {
        add_packing(sender.boxes(), out[i], wire.data(), batch);
        run(batch);
        ++packed;
      }
      batch.clear();
      if (std::byte* at = dense_at(receiver.boxes(), in[i])) {
        std::copy(wire.begin(), wire.end(), at);
      } else {
        add_unpacking(receiver.boxes(), in[i], wire.data(), batch);
        run(batch);
      }
    }
    number = 0;
    for (const WireBox& box : receiver.boxes()) {
      const state::Content content{{static_cast<uint64_t>(++number)}, cube(box.box.rank), 3, box.wire};
      for (const WireBox::Held& held : box.held) {
        const auto wrong = state::check_box(content, held.part, held.at.source());
        ASSERT_FALSE(wrong) << box.box.str() << ": " << wrong->str();
      }
    }
  }
  EXPECT_GT(dense, 100);
  EXPECT_GT(packed, 100);
}

TEST(Message, SmallBoxesShareAChunkAndLargeOnesAreCutByRows) {
  std::vector<float> memory(1000);
  const state::Target at{Box({0, 0}, {100, 10}), DType::kF32, reinterpret_cast<std::byte*>(memory.data())};
  const std::vector<WireBox> message = {{Box({0, 0}, {1, 3}), DType::kF32, {{Box({0, 0}, {1, 3}), at}}},
                                        {Box({1, 0}, {2, 3}), DType::kF32, {{Box({1, 0}, {2, 3}), at}}},
                                        {Box({2, 0}, {100, 10}), DType::kF32, {{Box({2, 0}, {100, 10}), at}}}};
  const std::vector<Chunk> chunks = cut(message, 1000);
  ASSERT_EQ(chunks.size(), 5u);
  ASSERT_EQ(chunks[0].parts.size(), 2u);
  EXPECT_EQ(chunks[0].parts[1].offset, 16) << "parts begin where copies of 16 bytes may";
  EXPECT_EQ(chunks[0].bytes, 28);
  EXPECT_EQ(chunks[1].parts.front().part, Box({2, 0}, {27, 10}));
  EXPECT_EQ(chunks[4].parts.front().part, Box({77, 0}, {100, 10}));
  EXPECT_EQ(dense_at(message, chunks[0]), nullptr) << "two parts";
  EXPECT_EQ(dense_at(message, chunks[1]), at.data + 20 * 4);
  EXPECT_TRUE(cut({}, 100).empty());
}

}  // namespace
}  // namespace scalai::executor::exchange
