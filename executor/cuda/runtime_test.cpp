#include "executor/cuda/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "executor/cuda/testing/gpu.h"
#include "executor/cuda/topology.h"

namespace scalai::executor::cuda {

using state::value_or_die;

namespace {
using CudaRuntime = OnGpu;

TEST_F(CudaRuntime, BuffersCopyAndClear) {
  Random random(1);
  const std::vector<std::byte> bytes = state::random_bytes(random, 1000);
  const DeviceBuffer buffer = value_or_die(DeviceBuffer::create(0, 1000));
  EXPECT_EQ(buffer.bytes(), 1024);
  put(buffer.data(), bytes);
  EXPECT_EQ(get(buffer.data(), 1000), bytes);
  const Stream stream = value_or_die(Stream::create(0));
  EXPECT_OK(stream.clear(buffer.data() + 10, 500));
  EXPECT_OK(stream.synchronize());
  std::vector<std::byte> expected = bytes;
  std::fill_n(expected.begin() + 10, 500, std::byte{0});
  EXPECT_EQ(get(buffer.data(), 1000), expected);
}

TEST_F(CudaRuntime, OutOfMemoryIsAStatusWithNumbers) {
  const GpuBytes bytes = value_or_die(gpu_bytes(0));
  EXPECT_GT(bytes.total, bytes.free);
  const absl::Status status = DeviceBuffer::create(0, 2 * bytes.total).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(message_of(status), testing::HasSubstr("GPU 0"));
  EXPECT_THAT(message_of(status), testing::HasSubstr("are free"));
  EXPECT_OK(DeviceBuffer::create(0, 1000).status());  // it was no lasting error
}

TEST_F(CudaRuntime, AGpuThatIsNotThere) {
  const absl::Status status = Stream::create(1000).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_OK(Stream::create(0).status());
}

TEST_F(CudaRuntime, EventsOrderStreams) {
  const Stream first = value_or_die(Stream::create(0));
  const Stream second = value_or_die(Stream::create(0));
  Event event = value_or_die(Event::create(0));
  EXPECT_TRUE(value_or_die(event.query()));
  const int64_t bytes = 256 * kMiB;
  const DeviceBuffer buffer = value_or_die(DeviceBuffer::create(0, bytes));
  const PinnedBuffer seen = value_or_die(PinnedBuffer::create(1));
  put(buffer.data() + bytes - 1, std::array{std::byte{7}});
  EXPECT_OK(first.clear(buffer.data(), bytes));
  EXPECT_OK(event.record(first));
  EXPECT_OK(second.wait(event));
  EXPECT_OK(second.copy(seen.data(), buffer.data() + bytes - 1, 1));
  EXPECT_OK(second.synchronize());
  EXPECT_EQ(*seen.data(), std::byte{0});
  EXPECT_TRUE(value_or_die(event.query()));
}

TEST_F(CudaRuntime, PinnedMemoryIsKnown) {
  const PinnedBuffer pinned = value_or_die(PinnedBuffer::create(100));
  EXPECT_TRUE(is_pinned(pinned.data()));
  const std::vector<std::byte> pageable(100);
  EXPECT_FALSE(is_pinned(pageable.data()));
  const DeviceBuffer device = value_or_die(DeviceBuffer::create(0, 100));
  EXPECT_FALSE(is_pinned(device.data()));
}

TEST_F(CudaRuntime, TheReportNamesEveryGpu) {
  const GpuReport report = value_or_die(gpu_report());
  ASSERT_EQ(static_cast<int>(report.gpus.size()), value_or_die(gpu_count()));
  EXPECT_EQ(report.gpus[0].name, value_or_die(gpu_name(0)));
  EXPECT_GE(report.gpus[0].capability_major, 7);
  EXPECT_GT(report.gpus[0].multiprocessors, 0);
  EXPECT_TRUE(report.gpus[0].virtual_memory);
  EXPECT_EQ(report.links.size(), report.gpus.size());
  std::fprintf(stderr, "%s", text_of(report).c_str());
}

}  // namespace
}  // namespace scalai::executor::cuda
