#include "executor/cuda/yardsticks.h"

#include <gtest/gtest.h>

#include "executor/cuda/testing/gpu.h"
#include "executor/state/copy.h"

namespace scalai::executor::cuda {
namespace {
using YardsticksTest = OnGpu;

// Columns of a matrix: rows of equal distance on both sides, and a batch of as many runs.
TEST_F(YardsticksTest, CopyWhatWeCopy) {
  constexpr int64_t kRows = 512, kColumns = 96;
  const auto from = DeviceBuffer::create(0, kRows * kColumns * 4), to = DeviceBuffer::create(0, kRows * kColumns * 4);
  ASSERT_TRUE(from.ok() && to.ok());
  Random random(7);
  const std::vector<std::byte> bytes = state::random_bytes(random, from->bytes());
  const tensor::Box whole({0, 0}, {kRows, kColumns}), part({3, 10}, {kRows, 80});
  const device::BoxCopy copy{
      part, {whole, tensor::DType::kF32, from->data()}, {whole, tensor::DType::kF32, to->data()}};
  std::vector<std::byte> expected(bytes.size());
  state::copy_box(part, {whole, tensor::DType::kF32, bytes.data()}, {whole, tensor::DType::kF32, expected.data()});
  for (const bool batch : {false, true}) {
    put(from->data(), bytes, 0);
    put(to->data(), std::vector<std::byte>(bytes.size()), 0);
    const auto seconds = batch ? memcpy_batch_seconds(0, {&copy, 1}, 3) : memcpy_2d_seconds(0, {&copy, 1}, 3);
    ASSERT_TRUE(seconds.ok()) << seconds.status();
    EXPECT_GT(*seconds, 0);
    EXPECT_EQ(get(to->data(), to->bytes(), 0), expected) << (batch ? "batch" : "2D");
  }
  const auto plain = device_copy_seconds(0, int64_t{1} << 20, 3);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_GT(*plain, 0);
}

}  // namespace
}  // namespace scalai::executor::cuda
