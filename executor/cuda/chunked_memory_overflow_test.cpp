// More than the device holds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/cuda/chunked_memory.h"
#include "executor/cuda/testing/fake_chunk_source.h"
#include "executor/state/store.h"
#include "executor/state/testing/support.h"

namespace scalai::executor::cuda {

using state::value_or_die;

namespace {

state::SegmentOptions overflowing(int64_t chunks, int64_t limit_chunks = int64_t{1} << 40) {
  return {.capacity = 600 * kChunk,
          .limit = limit_chunks * kChunk,
          .leave_free = 0,
          .host_overflow = chunks * kChunk + kChunk / 2};
}

TEST(Overflow, TheHostHoldsWhatTheGpuCannot) {
  OnFakeGpu at(8, overflowing(5));
  ASSERT_OK(at.memory->allocate(7 * kChunk).status());
  EXPECT_EQ(at.memory->bytes_on_host(), 0);
  const uint64_t more = value_or_die(at.memory->allocate(5 * kChunk));
  EXPECT_EQ(at.chunks_out(), 8);
  EXPECT_EQ(at.chunks_on_host(), 4);
  EXPECT_EQ(at.memory->bytes_on_host(), 4 * kChunk);
  EXPECT_EQ(at.memory->bytes_held(), 12 * kChunk);
  EXPECT_EQ(at.memory->bytes_peak(), 12 * kChunk);
  EXPECT_TRUE(all(at.memory->data(more), 5 * kChunk, std::byte{0}));
  at.memory->free(more);
  EXPECT_EQ(at.memory->bytes_on_host(), 0);
  EXPECT_EQ(at.chunks_on_host(), 0);
}

TEST(Overflow, FullOnBothSidesIsAnErrorThatNamesBoth) {
  OnFakeGpu at(8, overflowing(5));
  ASSERT_OK(at.memory->allocate(10 * kChunk).status());
  const absl::Status status = at.memory->allocate(4 * kChunk).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message_of(status),
              testing::HasSubstr("262 kB more do not fit: there is room for 0 B on GPU 7 and for 197 kB in host "
                                 "memory, of which 131 kB of 360 kB for overflow are used"));
  EXPECT_EQ(at.memory->bytes_held(), 10 * kChunk);
  EXPECT_OK(at.memory->allocate(3 * kChunk).status());
}

TEST(Overflow, TheMachineMayHaveLess) {
  OnFakeGpu at(2, overflowing(5));
  at.gpu->host_chunks = 3;
  EXPECT_EQ(at.memory->allocate(6 * kChunk).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(at.memory->bytes_held(), 0);
  EXPECT_OK(at.memory->allocate(5 * kChunk).status());
}

TEST(Overflow, TheLimitIsOnTheDevice) {
  OnFakeGpu at(64, overflowing(4, 3));
  const uint64_t a = value_or_die(at.memory->allocate(5 * kChunk));
  EXPECT_EQ(at.chunks_out(), 3);
  EXPECT_EQ(at.chunks_on_host(), 2);
  const absl::Status status = at.memory->allocate(3 * kChunk).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(message_of(status),
            "197 kB more do not fit: 328 kB of this device's 197 kB and 295 kB of host memory are used");
  EXPECT_OK(at.memory->settle());
  EXPECT_EQ(at.chunks_on_host(), 2);
  EXPECT_EQ(at.memory->free_range(a, kChunk), kChunk);  // of the device's
  EXPECT_OK(at.memory->settle());
  EXPECT_EQ(at.chunks_out(), 3);
  EXPECT_EQ(at.chunks_on_host(), 1);
}

// As without overflow: many chunks of which little is used are not above the limit.
TEST(Overflow, LittleInManyChunksKeepsToTheLimit) {
  OnFakeGpu at(64, overflowing(1, 4));
  std::vector<uint64_t> whole;
  for (int i = 0; i < 4; ++i) {
    whole.push_back(value_or_die(at.memory->allocate(kChunk)));
    at.memory->free_range(whole.back(), kChunk - kGrain);
  }
  ASSERT_EQ(at.memory->bytes_in_use(), 4 * kGrain);
  EXPECT_OK(at.memory->allocate(3 * kChunk).status());
  EXPECT_EQ(at.chunks_on_host(), 0);
}

TEST(Overflow, SettleBringsAllBackWithItsContent) {
  OnFakeGpu at(200, overflowing(150));
  const uint64_t old_state = value_or_die(at.memory->allocate(180 * kChunk));
  const int64_t bytes = 70 * kChunk + 3 * kGrain;
  const uint64_t fresh = value_or_die(at.memory->allocate(bytes));
  ASSERT_EQ(at.chunks_on_host(), 51);
  Random random(7);
  std::vector<std::byte> content = state::random_bytes(random, bytes);
  std::memcpy(at.memory->data(fresh), content.data(), content.size());
  EXPECT_OK(at.memory->settle());  // there is no room
  EXPECT_EQ(at.gpu->moves, 0);
  EXPECT_EQ(at.memory->free_range(old_state, 20 * kChunk), 20 * kChunk);
  EXPECT_OK(at.memory->settle());  // for some
  EXPECT_EQ(at.chunks_on_host(), 31);
  at.memory->free(old_state);
  const int64_t in_use = at.memory->bytes_in_use();
  EXPECT_OK(at.memory->settle());
  EXPECT_EQ(at.memory->bytes_on_host(), 0);
  EXPECT_EQ(at.chunks_on_host(), 0);
  EXPECT_EQ(at.chunks_out(), 71);
  EXPECT_EQ(at.gpu->moves, 51);
  EXPECT_EQ(at.memory->bytes_in_use(), in_use);
  EXPECT_EQ(std::memcmp(at.memory->data(fresh), content.data(), content.size()), 0);
  at.memory->free(fresh);
  EXPECT_EQ(at.memory->bytes_held(), 0);
}

TEST(Overflow, MoreThanOneBatchOfMoves) {
  OnFakeGpu at(150, overflowing(150));
  const uint64_t a = value_or_die(at.memory->allocate(150 * kChunk));
  const uint64_t b = value_or_die(at.memory->allocate(149 * kChunk));
  std::memset(at.memory->data(b), 8, 149 * kChunk);
  at.memory->free(a);
  EXPECT_OK(at.memory->settle());
  EXPECT_EQ(at.gpu->moves, 149);
  EXPECT_EQ(at.chunks_on_host(), 0);
  EXPECT_TRUE(all(at.memory->data(b), 149 * kChunk, std::byte{8}));
}

TEST(Overflow, EarlyFreesGiveTheHostsChunksBack) {
  OnFakeGpu at(2, overflowing(6));
  const uint64_t a = value_or_die(at.memory->allocate(8 * kChunk));
  ASSERT_EQ(at.chunks_on_host(), 6);
  const int64_t before = at.memory->bytes_on_host();
  EXPECT_EQ(at.memory->free_range(a, 8 * kChunk - kGrain), 8 * kChunk - kGrain);
  EXPECT_EQ(at.chunks_out() + at.chunks_on_host(), 1);
  EXPECT_LT(at.memory->bytes_on_host(), before);
  EXPECT_OK(at.memory->settle());
  EXPECT_EQ(at.chunks_on_host(), 0);
  EXPECT_EQ(at.chunks_out(), 1);
}

TEST(Overflow, ReservedOnBothSidesAndUsedFromTheDeviceOn) {
  OnFakeGpu at(8, overflowing(6));
  const uint64_t old_state = value_or_die(at.memory->allocate(5 * kChunk));
  ASSERT_OK(at.memory->reserve(7 * kChunk));  // and one
  EXPECT_EQ(at.chunks_out(), 8);
  EXPECT_EQ(at.chunks_on_host(), 5);
  EXPECT_EQ(at.memory->bytes_held(), 13 * kChunk);
  const int64_t calls = at.gpu->calls;
  const uint64_t first = value_or_die(at.memory->allocate(3 * kChunk));
  at.memory->free(old_state);
  const uint64_t second = value_or_die(at.memory->allocate(7 * kChunk));
  std::memset(at.memory->data(second), 6, 7 * kChunk);
  at.memory->free(first);
  EXPECT_OK(at.memory->settle());  // into what is in reserve; as much stays in reserve
  EXPECT_EQ(at.gpu->calls, calls);
  EXPECT_EQ(at.gpu->moves, 2);
  EXPECT_EQ(at.memory->bytes_held(), 13 * kChunk);
  ASSERT_OK(at.memory->reserve(0));
  EXPECT_EQ(at.chunks_on_host(), 0);
  EXPECT_EQ(at.chunks_out(), 7);
  EXPECT_TRUE(all(at.memory->data(second), 7 * kChunk, std::byte{6}));
  const absl::Status status = at.memory->reserve(7 * kChunk);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(at.memory->bytes_held(), 7 * kChunk);
}

TEST(Overflow, OthersOnTheCardMayBeFaster) {
  OnFakeGpu at(8, overflowing(6));
  at.gpu->unseen = 3;
  const uint64_t a = value_or_die(at.memory->allocate(6 * kChunk));
  EXPECT_EQ(at.chunks_out(), 5);
  EXPECT_EQ(at.chunks_on_host(), 1);
  EXPECT_OK(at.memory->settle());
  EXPECT_EQ(at.chunks_on_host(), 1);
  at.gpu->unseen = 0;
  EXPECT_OK(at.memory->settle());
  EXPECT_EQ(at.chunks_on_host(), 0);
  at.memory->free(a);
  at.gpu->unseen = 7;
  EXPECT_EQ(at.memory->allocate(8 * kChunk).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(at.memory->bytes_held(), 0);
}

TEST(Overflow, AMoveThatFailsLeavesAllWhereItWas) {
  OnFakeGpu at(100, overflowing(90));
  const uint64_t a = value_or_die(at.memory->allocate(100 * kChunk));
  const uint64_t b = value_or_die(at.memory->allocate(80 * kChunk));
  std::memset(at.memory->data(b), 3, 80 * kChunk);
  at.memory->free(a);
  at.gpu->fail_move_after = 1;  // the second batch
  EXPECT_EQ(at.memory->settle().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(at.chunks_out(), 64);
  EXPECT_EQ(at.chunks_on_host(), 16);
  EXPECT_EQ(at.memory->bytes_on_host(), 16 * kChunk);
  EXPECT_TRUE(all(at.memory->data(b), 80 * kChunk, std::byte{3}));
  EXPECT_OK(at.memory->settle());
  EXPECT_EQ(at.chunks_on_host(), 0);
}

TEST(Overflow, ADriverWithoutHostMemorySaysSoAtOnce) {
  const auto gpu = std::make_shared<FakeGpu>();
  gpu->chunk_bytes = kChunk;
  const auto made = ChunkedMemory::create(std::make_unique<FakeChunkSource>(gpu), overflowing(4));
  EXPECT_EQ(made.status().code(), absl::StatusCode::kNotFound);
  gpu->host_chunks = 10;
  gpu->fail_map_after = 0;
  EXPECT_EQ(ChunkedMemory::create(std::make_unique<FakeChunkSource>(gpu), overflowing(4)).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_TRUE(gpu->on_host.empty());
}

// A change of epoch of a place whose device holds one and a half times its state.
absl::Status change_epoch(OnFakeGpu at) {
  state::Store store(std::move(at.memory));
  const state::VersionKey before{1, state::StateVersion::epoch(4)};
  const state::VersionKey after{1, state::StateVersion::epoch(5)};
  const auto box_of = [](int64_t part) { return tensor::Box({part * kChunk}, {(part + 1) * kChunk}); };
  const auto add = [&](const state::VersionKey& key, int64_t part, int mark) -> absl::Status {
    SCALAI_ASSIGN_OR_RETURN(const state::Target target, store.add(key, TensorId(0), box_of(part), tensor::DType::kU8));
    std::memset(target.data, mark, static_cast<size_t>(kChunk));
    return {};
  };
  for (int64_t part = 0; part < 10; ++part) SCALAI_CHECK(add(before, part, 10 + static_cast<int>(part)).ok());
  SCALAI_RETURN_IF_ERROR(store.reserve(10 * kChunk));
  for (int64_t part = 0; part < 10; ++part) SCALAI_RETURN_IF_ERROR(add(after, part, 50 + static_cast<int>(part)));
  const auto holds = [&](const state::VersionKey& key, int64_t part, int mark) {
    const std::vector<state::Piece> pieces = store.find(key, TensorId(0), box_of(part));
    return pieces.size() == 1 && all(store.target(pieces[0]).data, kChunk, static_cast<std::byte>(mark));
  };
  for (int64_t part = 0; part < 10; ++part) EXPECT_TRUE(holds(before, part, 10 + static_cast<int>(part)));
  EXPECT_GT(at.chunks_on_host(), 0);
  store.drop(before);
  SCALAI_RETURN_IF_ERROR(store.settle());
  SCALAI_RETURN_IF_ERROR(store.reserve(0));
  EXPECT_EQ(at.chunks_on_host(), 0);
  EXPECT_EQ(at.chunks_out(), 10);
  for (int64_t part = 0; part < 10; ++part) EXPECT_TRUE(holds(after, part, 50 + static_cast<int>(part)));
  return {};
}

TEST(Overflow, AChangeOfEpochThatDoesNotFitTheDevice) {
  for (const state::SegmentOptions& options : {overflowing(6), overflowing(6, 15)}) {
    const int64_t chunks = options.limit == 15 * kChunk ? 64 : 15;
    EXPECT_OK(change_epoch(OnFakeGpu(chunks, options)));
    state::SegmentOptions none = options;
    none.host_overflow = 0;
    EXPECT_EQ(change_epoch(OnFakeGpu(chunks, none)).code(), absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace scalai::executor::cuda
