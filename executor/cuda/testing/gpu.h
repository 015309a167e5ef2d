#pragma once
// What the tests on a GPU share. They skip with CUDA's reason where there is none.

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

#include "executor/cuda/runtime.h"
#include "executor/state/testing/support.h"

namespace scalai::executor::cuda {

inline constexpr int64_t kMiB = int64_t{1} << 20;

// Bytes to and from a GPU without the code under test: the driver copies them, through pinned memory.
inline void put(std::byte* device, std::span<const std::byte> bytes, int gpu = 0) {
  const PinnedBuffer pinned = state::value_or_die(PinnedBuffer::create(static_cast<int64_t>(bytes.size())));
  const Stream stream = state::value_or_die(Stream::create(gpu));
  std::memcpy(pinned.data(), bytes.data(), bytes.size());
  EXPECT_OK(stream.copy(device, pinned.data(), static_cast<int64_t>(bytes.size())));
  EXPECT_OK(stream.synchronize());
}
inline std::vector<std::byte> get(const std::byte* device, int64_t bytes, int gpu = 0) {
  const PinnedBuffer pinned = state::value_or_die(PinnedBuffer::create(bytes));
  const Stream stream = state::value_or_die(Stream::create(gpu));
  EXPECT_OK(stream.copy(pinned.data(), device, bytes));
  EXPECT_OK(stream.synchronize());
  return {pinned.data(), pinned.data() + bytes};
}

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<int> gpus = gpu_count();
    if (!gpus.ok()) GTEST_SKIP() << message_of(gpus.status());
  }
};

}  // namespace scalai::executor::cuda
