#include "executor/cuda/chunked_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "executor/cuda/testing/fake_chunk_source.h"
#include "executor/state/testing/support.h"

namespace scalai::executor::cuda {

using state::value_or_die;

namespace {
TEST(ChunkedMemory, ChunksComeWithTheFirstGrainAndGoWithTheLast) {
  OnFakeGpu at;
  EXPECT_EQ(at.chunks_out(), 0);
  const uint64_t a = value_or_die(at.memory->allocate(3 * kGrain - 5));
  EXPECT_EQ(at.memory->bytes_in_use(), 3 * kGrain);
  EXPECT_EQ(at.chunks_out(), 1);
  const uint64_t b = value_or_die(at.memory->allocate(kGrain));
  EXPECT_EQ(at.chunks_out(), 1);
  const uint64_t c = value_or_die(at.memory->allocate(2 * kChunk));
  EXPECT_EQ(at.chunks_out(), 3);
  EXPECT_EQ(at.memory->bytes_held(), 3 * kChunk);
  at.memory->free(a);
  EXPECT_EQ(at.chunks_out(), 3);
  at.memory->free(c);
  EXPECT_EQ(at.chunks_out(), 1);
  at.memory->free(b);
  EXPECT_EQ(at.chunks_out(), 0);
  EXPECT_EQ(at.memory->bytes_in_use(), 0);
  EXPECT_EQ(at.memory->bytes_peak(), 4 * kGrain + 2 * kChunk);
}

TEST(ChunkedMemory, IsSharedChunkByChunk) {
  OnFakeGpu at;
  (void)value_or_die(at.memory->allocate(kChunk));
  const uint64_t state = value_or_die(at.memory->allocate(2 * kChunk));
  const state::SharedPart first = value_or_die(at.memory->share(state)),
                          last = value_or_die(at.memory->share(state + 2 * kChunk - 1));
  EXPECT_EQ(first.offset, static_cast<uint64_t>(kChunk));
  EXPECT_EQ(last.offset, static_cast<uint64_t>(2 * kChunk));
  EXPECT_EQ(first.bytes, kChunk);
  at.memory->data(state)[5] = std::byte{7};
  at.memory->data(state)[2 * kChunk - 1] = std::byte{9};
  const auto at_offset = [](const state::SharedPart& part, uint64_t offset) {
    std::byte byte{};
    SCALAI_CHECK(::pread(part.descriptor.get(), &byte, 1, static_cast<off_t>(offset - part.offset)) == 1);
    return byte;
  };
  EXPECT_EQ(at_offset(first, state + 5), std::byte{7});
  EXPECT_EQ(at_offset(last, state + 2 * kChunk - 1), std::byte{9});
}

TEST(ChunkedMemory, MemoryOfTheHostIsNotShared) {
  OnFakeGpu at(1, {.capacity = 16 * kChunk, .leave_free = 0, .host_overflow = 4 * kChunk});
  const uint64_t state = value_or_die(at.memory->allocate(2 * kChunk));
  ASSERT_EQ(at.chunks_on_host(), 1);
  const bool first = at.memory->share(state).ok(), second = at.memory->share(state + kChunk).ok();
  EXPECT_NE(first, second);
}

TEST(ChunkedMemory, WhatIsAllocatedIsZero) {
  OnFakeGpu at;
  const uint64_t a = value_or_die(at.memory->allocate(kGrain));
  const uint64_t b = value_or_die(at.memory->allocate(kChunk));
  EXPECT_TRUE(all(at.memory->data(a), kGrain, std::byte{0}));
  EXPECT_TRUE(all(at.memory->data(b), kChunk, std::byte{0}));
  std::memset(at.memory->data(a), 1, kGrain);
  std::memset(at.memory->data(b), 2, kChunk);
  at.memory->free(a);
  const uint64_t again = value_or_die(at.memory->allocate(kGrain));  // in the same chunk, which stayed mapped
  EXPECT_EQ(again, a);
  EXPECT_TRUE(all(at.memory->data(again), kGrain, std::byte{0}));
  EXPECT_TRUE(all(at.memory->data(b), kChunk, std::byte{2}));
}

TEST(ChunkedMemory, EarlyFreesGiveChunksBack) {
  OnFakeGpu at;
  const uint64_t a = value_or_die(at.memory->allocate(4 * kChunk));
  ASSERT_EQ(at.chunks_out(), 4);
  EXPECT_EQ(at.memory->free_range(a + 1, kChunk), kChunk - kGrain);  // whole grains only
  EXPECT_EQ(at.chunks_out(), 4);
  EXPECT_EQ(at.memory->free_range(a, kChunk + 1), kGrain);  // the rest of the first chunk
  EXPECT_EQ(at.chunks_out(), 3);
  EXPECT_EQ(at.memory->free_range(a, kChunk + 1), 0);
  EXPECT_EQ(at.memory->free_range(a + 2 * kChunk, 2 * kChunk), 2 * kChunk);
  EXPECT_EQ(at.chunks_out(), 1);
  EXPECT_EQ(at.memory->bytes_in_use(), kChunk);
  at.memory->free(a);
  EXPECT_EQ(at.chunks_out(), 0);
  EXPECT_EQ(at.memory->bytes_in_use(), 0);
  EXPECT_EQ(value_or_die(at.memory->allocate(4 * kChunk)), a);
}

TEST(ChunkedMemory, AfterReserveTheSourceIsAskedForNothing) {
  OnFakeGpu at;
  const uint64_t old_state = value_or_die(at.memory->allocate(10 * kChunk));
  ASSERT_OK(at.memory->reserve(8 * kChunk));
  EXPECT_EQ(at.memory->bytes_held(), 19 * kChunk);
  const int64_t calls = at.gpu->calls;
  std::vector<uint64_t> fresh;
  for (int i = 0; i < 8; ++i) fresh.push_back(value_or_die(at.memory->allocate(kChunk - kGrain)));
  EXPECT_EQ(at.memory->free_range(old_state, 5 * kChunk), 5 * kChunk);
  fresh.push_back(value_or_die(at.memory->allocate(5 * kChunk)));
  for (const uint64_t offset : fresh) at.memory->free(offset);
  at.memory->free(old_state);
  EXPECT_EQ(at.gpu->calls, calls);
  EXPECT_EQ(at.memory->bytes_held(), 19 * kChunk);
  ASSERT_OK(at.memory->reserve(0));
  EXPECT_EQ(at.memory->bytes_held(), 0);
  EXPECT_EQ(at.chunks_out(), 0);
}

TEST(ChunkedMemory, ASmallerReservationGivesBack) {
  OnFakeGpu at;
  ASSERT_OK(at.memory->reserve(20 * kChunk));
  EXPECT_EQ(at.chunks_out(), 21);
  ASSERT_OK(at.memory->reserve(kGrain));
  EXPECT_EQ(at.chunks_out(), 2);
}

TEST(ChunkedMemory, TheLimitIsHonoured) {
  OnFakeGpu at(64, {.capacity = 256 * kChunk, .limit = 3 * kChunk, .leave_free = 0});
  ASSERT_OK(at.memory->allocate(2 * kChunk).status());
  const absl::Status status = at.memory->allocate(kChunk + 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(message_of(status), "65.5 kB more do not fit: 131 kB of this device's 197 kB are used");
  EXPECT_EQ(at.memory->reserve(kChunk + 1).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_OK(at.memory->reserve(kChunk));
  EXPECT_OK(at.memory->allocate(kChunk).status());
}

TEST(ChunkedMemory, AFullGpuIsAnErrorThatChangesNothing) {
  OnFakeGpu at(8, {.capacity = 256 * kChunk, .leave_free = kChunk});
  const uint64_t a = value_or_die(at.memory->allocate(5 * kChunk));
  const absl::Status status = at.memory->allocate(3 * kChunk).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message_of(status), testing::HasSubstr("GPU 7: 197 kB are free and 65.5 kB stay free"));
  EXPECT_EQ(at.chunks_out(), 5);
  EXPECT_EQ(at.memory->reserve(2 * kChunk).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(at.chunks_out(), 5);
  EXPECT_OK(at.memory->allocate(2 * kChunk).status());
  at.memory->free(a);
  EXPECT_EQ(at.chunks_out(), 2);
}

TEST(ChunkedMemory, AddressesRunOut) {
  OnFakeGpu at(64, {.capacity = 4 * kChunk, .leave_free = 0});
  const absl::Status status = at.memory->allocate(4 * kChunk + 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message_of(status), testing::HasSubstr("give it more capacity"));
  EXPECT_OK(at.memory->allocate(4 * kChunk).status());
}

TEST(ChunkedMemory, FailuresOfTheDriverAreUndone) {
  OnFakeGpu at;
  // A hole of free grains between two chunks in use, so that an allocation has two runs to map.
  const uint64_t before = value_or_die(at.memory->allocate(3 * kChunk));
  at.gpu->fail_map_after = 0;
  EXPECT_EQ(at.memory->allocate(2 * kChunk).status().code(), absl::StatusCode::kAborted);
  at.gpu->fail_map_after = -1;
  at.gpu->fail_clear = true;
  EXPECT_EQ(at.memory->allocate(2 * kChunk).status().code(), absl::StatusCode::kAborted);
  at.gpu->fail_clear = false;
  EXPECT_EQ(at.chunks_out(), 3);
  EXPECT_EQ(at.memory->bytes_in_use(), 3 * kChunk);
  EXPECT_EQ(value_or_die(at.memory->allocate(kGrain)), before + 3 * kChunk);
}

TEST(ChunkedMemory, TwoDevicesShareAGpu) {
  OnFakeGpu a(8);
  const std::unique_ptr<ChunkedMemory> b = value_or_die(
      ChunkedMemory::create(std::make_unique<FakeChunkSource>(a.gpu), {.capacity = 64 * kChunk, .leave_free = 0}));
  const uint64_t in_a = value_or_die(a.memory->allocate(6 * kChunk));
  EXPECT_EQ(b->allocate(3 * kChunk).status().code(), absl::StatusCode::kResourceExhausted);
  a.memory->free_range(in_a, 2 * kChunk);
  EXPECT_OK(b->allocate(3 * kChunk).status());
}

TEST(ChunkedMemory, AllGoesBackAtTheEnd) {
  OnFakeGpu at;
  ASSERT_OK(at.memory->allocate(3 * kChunk).status());
  ASSERT_OK(at.memory->reserve(5 * kChunk));
  at.memory.reset();
  EXPECT_EQ(at.chunks_out(), 0);
}

TEST(ChunkedMemory, NobodyElseMapsIt) {
  OnFakeGpu at;
  EXPECT_EQ(at.memory->address().fd, -1);
  EXPECT_OK(at.memory->publish({}));
}

TEST(ChunkedMemoryDeathTest, RefusesWhatWasNotAllocated) {
  OnFakeGpu at;
  const uint64_t a = value_or_die(at.memory->allocate(2 * kGrain));
  EXPECT_EXIT(at.memory->free(a + kGrain), testing::ExitedWithCode(70), "CHECK failed");
  EXPECT_EXIT(at.memory->free_range(a, 3 * kGrain), testing::ExitedWithCode(70), "CHECK failed");
  EXPECT_EXIT(at.memory->data(256 * kChunk), testing::ExitedWithCode(70), "CHECK failed");
}

// Random use against a model of grains: what is in use keeps its bytes, exactly the chunks with a grain in use are out,
// and all numbers are right. Where the host has
// chunks, what lies there is brought back now and then.
void use_randomly(uint64_t seed, OnFakeGpu& at, int64_t device_chunks, int64_t host_chunks) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  struct Live {
    int64_t bytes;
    std::byte mark;
    std::set<int64_t> gone;  // grains of it
  };
  std::map<uint64_t, Live> live;
  for (int step = 0; step < 1500; ++step) {
    const int64_t what = random.below(4);
    if (host_chunks > 0 && random.below(5) == 0) {
      ASSERT_OK(at.memory->settle());
      ASSERT_TRUE(at.chunks_on_host() == 0 || at.chunks_out() == device_chunks) << step;
    }
    if (what < 2) {
      const int64_t bytes = random.between(1, 3 * kChunk);
      const absl::StatusOr<uint64_t> offset = at.memory->allocate(bytes);
      if (offset.ok()) {
        ASSERT_TRUE(all(at.memory->data(*offset), bytes, std::byte{0})) << step;
        const auto mark = static_cast<std::byte>(step % 255 + 1);
        std::memset(at.memory->data(*offset), static_cast<int>(mark), static_cast<size_t>(bytes));
        live[*offset] = {bytes, mark, {}};
        continue;
      }
      ASSERT_EQ(offset.status().code(), absl::StatusCode::kResourceExhausted);
    }
    if (live.empty()) continue;
    auto chosen = std::next(live.begin(), random.below(static_cast<int64_t>(live.size())));
    auto& [offset, allocation] = *chosen;
    if (what == 2) {
      const int64_t from = random.below(allocation.bytes);
      const int64_t bytes = random.between(0, allocation.bytes - from);
      at.memory->free_range(offset + static_cast<uint64_t>(from), bytes);
      for (int64_t grain = (from + kGrain - 1) / kGrain; (grain + 1) * kGrain <= from + bytes; ++grain) {
        allocation.gone.insert(grain);
      }
    } else {
      at.memory->free(offset);
      live.erase(chosen);
    }
    std::set<int64_t> chunks;
    int64_t in_use = 0;
    for (const auto& [begin, one] : live) {
      for (int64_t grain = 0; grain * kGrain < one.bytes; ++grain) {
        if (one.gone.count(grain) != 0) continue;
        in_use += kGrain;
        chunks.insert((static_cast<int64_t>(begin) + grain * kGrain) / kChunk);
        const int64_t bytes = std::min(kGrain, one.bytes - grain * kGrain);
        ASSERT_TRUE(all(at.memory->data(begin) + grain * kGrain, bytes, one.mark)) << step;
      }
    }
    ASSERT_EQ(at.memory->bytes_in_use(), in_use) << step;
    ASSERT_EQ(at.chunks_out() + at.chunks_on_host(), static_cast<int64_t>(chunks.size())) << step;
    ASSERT_EQ(at.memory->bytes_on_host(), at.chunks_on_host() * kChunk) << step;
    ASSERT_LE(at.chunks_out(), device_chunks) << step;
    ASSERT_LE(at.chunks_on_host(), host_chunks) << step;
  }
}

TEST(ChunkedMemory, RandomUse) {
  OnFakeGpu at(1000, {.capacity = 64 * kChunk, .leave_free = 0});
  use_randomly(5, at, 1000, 0);
}

TEST(Overflow, RandomUse) {
  for (uint64_t seed = 20; seed < 24; ++seed) {
    OnFakeGpu at(12, {.capacity = 64 * kChunk, .leave_free = 0, .host_overflow = 14 * kChunk});
    use_randomly(seed, at, 12, 14);
  }
}

}  // namespace
}  // namespace scalai::executor::cuda
