#include "executor/cuda/cuda_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "executor/cuda/cuda_backend.h"
#include "executor/cuda/peer_memory.h"
#include "executor/cuda/testing/gpu.h"
#include "executor/state/store.h"

namespace scalai::executor::cuda {

using state::value_or_die;

namespace {
using CudaMemory = OnGpu;
constexpr int64_t kMemory = 1024 * kMiB;

absl::StatusOr<std::unique_ptr<ChunkedMemory>> make_pool(const state::SegmentOptions& options) {
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<ChunkSource> chunks,
                          make_cuda_chunks(0, {}, std::make_shared<AddressMap>(), kMemory));
  return ChunkedMemory::create(std::move(chunks), options);
}

struct Pool {
  explicit Pool(const state::SegmentOptions& options) {
    std::unique_ptr<ChunkSource> chunks = value_or_die(make_cuda_chunks(0, {}, addresses, kMemory));
    chunk = chunks->chunk_bytes();
    memory = value_or_die(ChunkedMemory::create(std::move(chunks), options));
  }
  std::shared_ptr<AddressMap> addresses = std::make_shared<AddressMap>();
  int64_t chunk = 0;
  std::unique_ptr<ChunkedMemory> memory;
};

TEST_F(CudaMemory, ZerosWritesAndEarlyFrees) {
  Random random(2);
  Pool pool({.capacity = 1024 * kMiB});
  EXPECT_EQ(pool.chunk % (2 * kMiB), 0);
  const uint64_t small = value_or_die(pool.memory->allocate(100));
  const uint64_t large = value_or_die(pool.memory->allocate(5 * pool.chunk));
  EXPECT_EQ(pool.addresses->gpu_of(pool.memory->data(large)), 0);
  const std::vector<std::byte> zeros(static_cast<size_t>(5 * pool.chunk));
  EXPECT_EQ(get(pool.memory->data(large), 5 * pool.chunk), zeros);
  const std::vector<std::byte> bytes = state::random_bytes(random, 5 * pool.chunk);
  put(pool.memory->data(large), bytes);
  // Its middle goes back to the GPU; both ends stay as they are.
  const int64_t held = pool.memory->bytes_held();
  EXPECT_EQ(pool.memory->free_range(large + static_cast<uint64_t>(pool.chunk), 3 * pool.chunk), 3 * pool.chunk);
  EXPECT_EQ(pool.memory->bytes_held(), held - 2 * pool.chunk);
  const std::vector<std::byte> end = get(pool.memory->data(large) + 4 * pool.chunk, pool.chunk);
  EXPECT_TRUE(std::equal(end.begin(), end.end(), bytes.begin() + 4 * pool.chunk));
  // Memory that comes again is zero, in a chunk that stayed and in others.
  pool.memory->free(large);
  const uint64_t again = value_or_die(pool.memory->allocate(5 * pool.chunk));
  EXPECT_EQ(again, large);
  EXPECT_EQ(get(pool.memory->data(again), 5 * pool.chunk), zeros);
  pool.memory->free(small);
  pool.memory->free(again);
  EXPECT_EQ(pool.memory->bytes_held(), 0);
}

// As a training process maps it; here in this one.
TEST_F(CudaMemory, AnotherMappingHasTheSameBytes) {
  Random random(4);
  Pool pool({.capacity = 1024 * kMiB});
  (void)value_or_die(pool.memory->allocate(100));
  const int64_t size = 3 * pool.chunk;
  const uint64_t state = value_or_die(pool.memory->allocate(size));
  const std::vector<std::byte> bytes = state::random_bytes(random, size);
  put(pool.memory->data(state), bytes);
  const uint64_t end = state + static_cast<uint64_t>(size);
  const state::SharedPart first = value_or_die(pool.memory->share(state)),
                          last = value_or_die(pool.memory->share(end - 1));
  std::unique_ptr<PeerMemory> peer =
      value_or_die(PeerMemory::reserve(0, first.offset, last.offset + static_cast<uint64_t>(last.bytes)));
  for (uint64_t at = state; at < end;) {
    const state::SharedPart part = value_or_die(pool.memory->share(at));
    EXPECT_LE(part.offset, at);
    ASSERT_OK(peer->map(part.offset, part.bytes, part.descriptor.get()));
    at = part.offset + static_cast<uint64_t>(part.bytes);
  }
  std::byte* const there = value_or_die(peer->data(state, size));
  EXPECT_NE(there, pool.memory->data(state));
  const auto content = [&] { return peer->on_gpu() ? get(there, size) : std::vector<std::byte>(there, there + size); };
  EXPECT_EQ(content(), bytes);
  const std::vector<std::byte> others = state::random_bytes(random, size);
  if (peer->on_gpu())
    put(there, others);
  else
    std::copy(others.begin(), others.end(), there);
  EXPECT_EQ(get(pool.memory->data(state), size), others);
  pool.memory->free(state);
  EXPECT_EQ(content(), others) << "it stays as long as somebody has mapped it";
  peer.reset();
}

TEST_F(CudaMemory, MemoryGoesBackToTheGpu) {
  const int64_t before = value_or_die(gpu_bytes(0)).free;
  {
    Pool pool({.capacity = 1024 * kMiB});
    ASSERT_OK(pool.memory->allocate(512 * kMiB).status());
    EXPECT_LE(value_or_die(gpu_bytes(0)).free, before - 512 * kMiB);
    ASSERT_OK(pool.memory->reserve(256 * kMiB));
    EXPECT_LE(value_or_die(gpu_bytes(0)).free, before - 768 * kMiB);
  }
  EXPECT_GE(value_or_die(gpu_bytes(0)).free, before - 64 * kMiB);
}

TEST_F(CudaMemory, AFullGpuIsAStatus) {
  const GpuBytes bytes = value_or_die(gpu_bytes(0));
  Pool pool({.capacity = 3 * bytes.total});
  const absl::Status status = pool.memory->allocate(2 * bytes.total).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(message_of(status), testing::HasSubstr("GPU 0"));
  EXPECT_EQ(pool.memory->reserve(2 * bytes.total).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.memory->bytes_held(), 0);
  EXPECT_OK(pool.memory->allocate(kMiB).status());
}

TEST_F(CudaMemory, ContentSurvivesOverflowAndTheWayBack) {
  Random random(3);
  const state::SegmentOptions options{.capacity = 1024 * kMiB, .limit = 220 * kMiB, .host_overflow = 300 * kMiB};
  const auto can = make_pool(options);
  if (absl::IsNotFound(can.status())) GTEST_SKIP() << message_of(can.status());
  Pool pool(options);
  const int64_t free_before = value_or_die(gpu_bytes(0)).free;
  const uint64_t filler = value_or_die(pool.memory->allocate(200 * kMiB));
  // A run of chunks of both kinds, and more than are moved at once.
  const int64_t size = 190 * kMiB + 5000;
  const uint64_t state = value_or_die(pool.memory->allocate(size));
  EXPECT_EQ(pool.memory->bytes_on_host() / kMiB, 172);
  EXPECT_GE(value_or_die(gpu_bytes(0)).free, free_before - 240 * kMiB);
  EXPECT_EQ(get(pool.memory->data(state), size), std::vector<std::byte>(static_cast<size_t>(size)));
  const std::vector<std::byte> bytes = state::random_bytes(random, size);
  put(pool.memory->data(state), bytes);
  EXPECT_EQ(get(pool.memory->data(state), size), bytes);
  EXPECT_EQ(pool.memory->free_range(filler, 30 * kMiB), 30 * kMiB);
  ASSERT_OK(pool.memory->settle());
  EXPECT_EQ(pool.memory->bytes_on_host() / kMiB, 142);
  EXPECT_EQ(get(pool.memory->data(state), size), bytes);
  pool.memory->free(filler);
  ASSERT_OK(pool.memory->settle());
  EXPECT_EQ(pool.memory->bytes_on_host(), 0);
  EXPECT_EQ(pool.memory->bytes_held(), 192 * kMiB);
  EXPECT_EQ(get(pool.memory->data(state), size), bytes);
  pool.memory->free(state);
  EXPECT_EQ(pool.memory->bytes_held(), 0);
}

// Old and new state do not fit together.
TEST_F(CudaMemory, AChangeOfEpochThatOverflows) {
  const std::unique_ptr<device::Backend> backend = value_or_die(make_cuda_backend({}));
  const tensor::Shape shape{6144, 1024};  // 12 MiB
  const tensor::Box whole = tensor::Box::whole(shape);
  const auto content_of = [&](int64_t step) { return state::Content{state::ContentKey::of("w"), shape, step}; };
  state::SegmentOptions options{.capacity = 1024 * kMiB, .limit = 16 * kMiB};
  for (const int64_t overflow : {int64_t{0}, 16 * kMiB}) {
    options.host_overflow = overflow;
    auto memory = backend->memory_of_device(0, options);
    if (absl::IsNotFound(memory.status())) GTEST_SKIP() << message_of(memory.status());
    const auto& chunked = static_cast<ChunkedMemory&>(**memory);
    state::Store store(*std::move(memory));
    const auto make = [&](int64_t epoch) -> absl::Status {
      SCALAI_ASSIGN_OR_RETURN(const state::Target target, store.add({1, state::StateVersion::epoch(epoch)}, TensorId{3},
                                                                    whole, tensor::DType::kBF16));
      const std::array fills = {device::BoxFill{content_of(epoch), whole, target}};
      return backend->fill(fills);
    };
    const auto is_right = [&](int64_t epoch) {
      const std::vector<state::Piece> pieces = store.find({1, state::StateVersion::epoch(epoch)}, TensorId{3}, whole);
      const std::array checks = {device::BoxCheck{content_of(epoch), whole, pieces.at(0).source(store.base())}};
      return !value_or_die(backend->check(checks)).front();
    };
    ASSERT_OK(make(1));
    const absl::Status reserved = store.reserve(12 * kMiB);
    if (overflow == 0) {
      EXPECT_EQ(reserved.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(make(2).code(), absl::StatusCode::kResourceExhausted);
      continue;
    }
    ASSERT_OK(reserved);
    ASSERT_OK(make(2));
    EXPECT_GE(chunked.bytes_on_host(), 8 * kMiB);
    EXPECT_TRUE(is_right(1));
    EXPECT_TRUE(is_right(2));
    store.drop({1, state::StateVersion::epoch(1)});
    ASSERT_OK(store.settle());
    ASSERT_OK(store.reserve(0));
    EXPECT_EQ(chunked.bytes_on_host(), 0);
    EXPECT_EQ(chunked.bytes_held(), 12 * kMiB);
    EXPECT_TRUE(is_right(2));
  }
}

}  // namespace
}  // namespace scalai::executor::cuda
