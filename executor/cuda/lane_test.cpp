#include "executor/cuda/lane.h"

#include <gtest/gtest.h>

#include <array>

#include "executor/cuda/testing/gpu.h"
#include "executor/state/digest.h"

namespace scalai::executor::cuda {

using state::value_or_die;
using tensor::Box;
using tensor::DType;

namespace {
using CudaLane = OnGpu;

// Slots so small that a batch is many launches, which reuse them while others run.
TEST_F(CudaLane, SmallSlots) {
  const std::unique_ptr<Lane> lane = value_or_die(Lane::create({.slots = 2, .slot_bytes = 1024}));
  constexpr int64_t kBoxes = 200;
  constexpr int64_t kEach = 100;
  const DeviceBuffer buffer = value_or_die(DeviceBuffer::create(0, 2 * kBoxes * kEach * 4));
  std::byte* copied = buffer.data() + kBoxes * kEach * 4;
  const tensor::Shape shape{kBoxes, kEach};
  const state::Content content{state::ContentKey::of("x"), shape, 3};
  const Box whole = Box::whole(shape);
  std::vector<device::BoxFill> fills;
  std::vector<device::BoxCopy> copies;
  std::vector<device::BoxCheck> checks;
  std::vector<device::BoxHash> hashes;
  for (int64_t row = 0; row < kBoxes; ++row) {
    const Box box({row, 0}, {row + 1, kEach});
    fills.push_back({content, box, {whole, DType::kF32, buffer.data()}});
    copies.push_back({box, {whole, DType::kF32, buffer.data()}, {whole, DType::kF32, copied}});
    checks.push_back({content, box, {whole, DType::kF32, copied}});
    hashes.push_back({box, {whole, DType::kF32, copied}});
  }
  ASSERT_OK(lane->fill(fills));
  ASSERT_OK(lane->copy(copies));
  for (const kernels::CheckResult& result : value_or_die(lane->check(checks))) EXPECT_EQ(result.wrong, 0u);
  std::vector<std::byte> expected(static_cast<size_t>(kBoxes * kEach * 4));
  state::fill_box(content, whole, {whole, DType::kF32, expected.data()});
  EXPECT_EQ(get(copied, kBoxes * kEach * 4), expected);
  const std::vector<uint64_t> digests = value_or_die(lane->hash(hashes));
  ASSERT_EQ(digests.size(), hashes.size());
  for (size_t i = 0; i < digests.size(); ++i) {
    EXPECT_EQ(digests[i], state::box_digest({whole, DType::kF32, expected.data()}, hashes[i].part)) << i;
  }
}

TEST_F(CudaLane, CountsWrongElements) {
  const std::unique_ptr<Lane> lane = value_or_die(Lane::create({}));
  const tensor::Shape shape{10, 100};
  const Box whole = Box::whole(shape);
  const state::Content content{state::ContentKey::of("x"), shape, 3};
  std::vector<std::byte> bytes(2000);
  state::fill_box(content, whole, {whole, DType::kBF16, bytes.data()});
  for (const size_t element : {950, 320, 777}) bytes[2 * element] ^= std::byte{1};
  const DeviceBuffer buffer = value_or_die(DeviceBuffer::create(0, 2000));
  put(buffer.data(), bytes);
  const std::array checks = {device::BoxCheck{content, whole, {whole, DType::kBF16, buffer.data()}},
                             device::BoxCheck{content, Box({4, 0}, {10, 100}), {whole, DType::kBF16, buffer.data()}}};
  const auto results = value_or_die(lane->check(checks));
  EXPECT_EQ(results[0].wrong, 3u);
  EXPECT_EQ(results[0].first, 320u);
  EXPECT_EQ(results[1].wrong, 2u);
  EXPECT_EQ(results[1].first, 777u);
  std::array<std::byte, 2> element{};
  ASSERT_OK(lane->read(element.data(), buffer.data() + 640, 2));
  EXPECT_EQ(element[0], bytes[640]);
  EXPECT_EQ(element[1], bytes[641]);
}

}  // namespace
}  // namespace scalai::executor::cuda
