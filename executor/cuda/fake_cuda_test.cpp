// What only a fake can show: GPUs that break, drivers that refuse.

#include "executor/cuda/testing/fake_cuda.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "executor/cuda/chunked_memory.h"
#include "executor/cuda/cuda_backend.h"
#include "executor/cuda/cuda_memory.h"
#include "executor/state/testing/support.h"

namespace scalai::executor::cuda {

using state::value_or_die;

namespace {

// Of the tests that map memory as another process does: the driver's library is the stand-in.
const bool kWithFakeDriver = ::dlopen(FAKE_CUDA_DRIVER, RTLD_NOW) != nullptr;

TEST(BrokenGpu, ErrorsOfTheRunComeOutAndNameTheGpu) {
  const std::unique_ptr<device::Backend> backend = value_or_die(make_cuda_backend({.devices = 2}));
  const std::unique_ptr<device::Staging> good = value_or_die(backend->staging(0, 100));
  const std::unique_ptr<device::Staging> bad = value_or_die(backend->staging(1, 100));
  const tensor::Box box({0}, {50});
  std::vector<std::byte> host(50);
  const auto at = [&](std::byte* data) { return state::Target{box, tensor::DType::kU8, data}; };
  const auto copy = [&](std::byte* from, std::byte* to) {
    const std::array copies = {device::BoxCopy{box, at(from).source(), at(to)}};
    return backend->copy(copies);
  };
  const state::Content content{state::ContentKey::of("x"), tensor::Shape{50}, 1};
  const std::array fills = {device::BoxFill{content, box, at(good->data())},
                            device::BoxFill{content, box, at(bad->data())}};
  const std::array checks = {device::BoxCheck{content, box, at(bad->data()).source()}};
  const std::array hashes = {device::BoxHash{box, at(bad->data()).source()}};
  break_fake_gpu(1);
  for (const absl::Status& status :
       {copy(bad->data(), bad->data() + 50), copy(good->data(), bad->data()), copy(host.data(), bad->data()),
        backend->fill(fills), backend->check(checks).status(), backend->hash(hashes).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    EXPECT_THAT(message_of(status), testing::StartsWith("GPU 1: work in a stream"));
  }
  EXPECT_OK(copy(good->data(), good->data() + 50));
  EXPECT_OK(copy(good->data(), host.data()));
  break_fake_gpu(-1);
  EXPECT_OK(copy(good->data(), bad->data()));
}

TEST(FakeDriver, TheGpuOfADeviceStaysCurrent) {
  const std::unique_ptr<device::Backend> backend =
      value_or_die(make_cuda_backend({.devices = 6, .devices_per_gpu = 2}));
  const auto current = [] {
    int gpu = -1;
    EXPECT_EQ(cudaGetDevice(&gpu), cudaSuccess);
    return gpu;
  };
  std::thread([&] {
    EXPECT_EQ(current(), 0);
    EXPECT_OK(backend->make_current(3));
    EXPECT_EQ(current(), 1);
    EXPECT_OK(backend->staging(5, 100).status());  // on another one
    EXPECT_EQ(current(), 1);
    EXPECT_OK(backend->make_current(4));
    EXPECT_EQ(current(), 2);
  }).join();
  EXPECT_EQ(current(), 0);
}

constexpr int64_t kFakeChunk = int64_t{2} << 20;

absl::StatusOr<std::unique_ptr<ChunkedMemory>> overflowing_memory() {
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<ChunkSource> chunks,
                          make_cuda_chunks(0, {}, std::make_shared<AddressMap>(), kFakeChunk));
  return ChunkedMemory::create(
      std::move(chunks),
      {.capacity = 64 * kFakeChunk, .limit = 3 * kFakeChunk, .leave_free = 0, .host_overflow = 8 * kFakeChunk});
}

TEST(FakeDriver, LargeMemoriesHaveLargeChunks) {
  const auto chunk_of = [](int64_t memory_bytes) {
    return value_or_die(make_cuda_chunks(0, {}, std::make_shared<AddressMap>(), memory_bytes))->chunk_bytes();
  };
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_EQ(chunk_of(1), kFakeChunk);
  EXPECT_EQ(chunk_of(kGiB), kFakeChunk);
  EXPECT_EQ(chunk_of(3 * kGiB), 3 * kFakeChunk);
  EXPECT_EQ(chunk_of(80 * kGiB), 4 * kFakeChunk);
}

TEST(FakeDriver, HostMemoryOfTheNodeOrOfAnyOrNone) {
  for (const bool of_node : {false, true}) {
    allow_fake_host_memory(of_node, !of_node);
    const std::unique_ptr<ChunkedMemory> memory = value_or_die(overflowing_memory());
    EXPECT_OK(memory->allocate(5 * kFakeChunk).status());
    EXPECT_EQ(fake_chunks().on_host, 2);
  }
  allow_fake_host_memory(false, false);
  const absl::Status none = overflowing_memory().status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message_of(none), testing::HasSubstr("without --host-overflow"));
  allow_fake_host_memory(true, true);
  EXPECT_EQ(fake_chunks().on_host, 0);
  EXPECT_EQ(fake_chunks().on_gpus, 0);
}

// Every mapping that moving state needs fails once.
TEST(FakeDriver, StateStaysWhereItWasWhenTheDriverMapsNothing) {
  const std::unique_ptr<ChunkedMemory> memory = value_or_die(overflowing_memory());
  const uint64_t before = value_or_die(memory->allocate(3 * kFakeChunk));
  const uint64_t state = value_or_die(memory->allocate(3 * kFakeChunk));
  ASSERT_EQ(memory->bytes_on_host(), 3 * kFakeChunk);
  std::memset(memory->data(state), 77, 3 * kFakeChunk);
  memory->free(before);
  const auto intact = [&] {
    return std::all_of(memory->data(state), memory->data(state) + 3 * kFakeChunk,
                       [](std::byte byte) { return byte == std::byte{77}; });
  };
  for (int nth = 0; nth < 6; ++nth) {
    SCOPED_TRACE(nth);
    fail_fake_map_after(nth);
    EXPECT_EQ(memory->settle().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(memory->bytes_on_host(), 3 * kFakeChunk);
    EXPECT_EQ(fake_chunks().on_host, 3);
    EXPECT_EQ(fake_chunks().on_gpus, 0);
    EXPECT_TRUE(intact());
  }
  fail_fake_map_after(-1);
  EXPECT_OK(memory->settle());
  EXPECT_EQ(fake_chunks().on_host, 0);
  EXPECT_EQ(fake_chunks().on_gpus, 3);
  EXPECT_TRUE(intact());
}

}  // namespace
}  // namespace scalai::executor::cuda
