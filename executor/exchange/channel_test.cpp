// Ranks are threads, each with devices in host memory; the library that stands in for NCCL carries the bytes.

#include "executor/exchange/channel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <map>
#include <thread>

#include "executor/nccl/library.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::executor::exchange {

using tensor::Box;

namespace {

using ::testing::HasSubstr;

const nccl::NcclLibrary& fake_nccl() {
  static const nccl::NcclLibrary library = nccl::NcclLibrary::open(FAKE_NCCL_LIBRARY).value();
  return library;
}

constexpr double kPatience_s = 20;

nccl::Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

// Runs work(rank, channel) on a thread a rank.
void on_ranks(int size, const ChannelOptions& options, const std::function<void(int, Channel&)>& work) {
  const nccl::NcclUniqueId id = nccl::make_unique_id(fake_nccl().api()).value();
  std::vector<std::thread> threads;
  std::barrier all_there(size);
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto joined = nccl::Communicator::join(fake_nccl().api(), {.id = id, .rank = rank, .size = size}, soon());
      ASSERT_TRUE(joined.ok()) << joined.status();
      const std::unique_ptr<device::Backend> backend = device::make_host_backend({.devices_per_gpu = 1});
      auto channel = Channel::create(*backend, 0, std::make_shared<nccl::Communicator>(*std::move(joined)), options);
      ASSERT_TRUE(channel.ok()) << channel.status();
      all_there.arrive_and_wait();
      work(rank, **channel);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

state::Content content_of(int src, int dst, size_t box) {
  return {{static_cast<uint64_t>(src * 1000 + dst * 100) + box}, {512, 64}, 1};
}

// Boxes from one rank to another: any number, most in columns of a wider buffer.
std::vector<Box> boxes_between(uint64_t seed, int src, int dst) {
  Random random(seed * 10007 + static_cast<uint64_t>(src * 64 + dst));
  std::vector<Box> boxes(static_cast<size_t>(random.between(0, 5)));
  for (Box& box : boxes) {
    box = Box({0, random.between(0, 30)}, {random.between(1, 500), 0});
    box.hi[1] = box.lo[1] + random.between(1, 33);
  }
  return boxes;
}

// A whole tensor for each box of a message.
struct Buffers {
  explicit Buffers(const std::vector<Box>& boxes) {
    for (const Box& box : boxes) {
      memory.emplace_back(512 * 64 * 4);
      const state::Target at{Box({0, 0}, {512, 64}), tensor::DType::kF32, memory.back().data()};
      wire.push_back({box, tensor::DType::kF32, {{box, at}}});
    }
  }
  std::vector<std::vector<std::byte>> memory;
  std::vector<WireBox> wire;
};

void exchange(int rank, int size, uint64_t seed, Channel& channel) {
  std::vector<Buffers> out, in;
  std::vector<Traffic> sends, receives;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    Buffers& mine = out.emplace_back(boxes_between(seed, rank, peer));
    for (size_t i = 0; i < mine.wire.size(); ++i)
      state::fill_box(content_of(rank, peer, i), mine.wire[i].box, mine.wire[i].held.front().at);
    sends.push_back({peer, mine.wire});
    receives.push_back({peer, in.emplace_back(boxes_between(seed, peer, rank)).wire});
  }
  const absl::Status done = channel.run(sends, receives);
  ASSERT_TRUE(done.ok()) << done;
  for (const Traffic& message : receives) {
    for (size_t i = 0; i < message.boxes.size(); ++i) {
      const WireBox& box = message.boxes[i];
      const auto wrong = state::check_box(content_of(message.peer, rank, i), box.box, box.held.front().at.source());
      ASSERT_FALSE(wrong) << message.peer << " → " << rank << " " << box.box.str() << ": " << wrong->str();
    }
  }
}

// 32 MiB for 1, 2, 3, 4, 7, 8 and more other ranks: 32, 16, 10.7, 8, 4.6, 4 …, rounded down.
TEST(Channel, ChunksAreLargeWhereThereAreFewRanks) {
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(chunk_bytes_for(1), 32 * kMiB);
  EXPECT_EQ(chunk_bytes_for(2), 32 * kMiB);
  EXPECT_EQ(chunk_bytes_for(3), 16 * kMiB);
  EXPECT_EQ(chunk_bytes_for(4), 8 * kMiB);
  EXPECT_EQ(chunk_bytes_for(5), 8 * kMiB);
  EXPECT_EQ(chunk_bytes_for(8), 4 * kMiB);
  EXPECT_EQ(chunk_bytes_for(9), 4 * kMiB);
  EXPECT_EQ(chunk_bytes_for(4096), 4 * kMiB);
}

TEST(Channel, EverybodySendsToEverybody) {
  for (const int64_t chunk_bytes : {64, 1000, 1 << 16}) {
    for (const int size : {2, 3, 5}) {
      SCOPED_TRACE(testing::Message() << size << " ranks, chunks of " << chunk_bytes);
      on_ranks(size, {.chunk_bytes = chunk_bytes}, [&](int rank, Channel& channel) {
        for (uint64_t seed = 1; seed <= 3; ++seed) exchange(rank, size, seed, channel);
      });
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// A peer that leaves in the middle: all others are told in time, and nothing goes on.
TEST(Channel, ALostPeerIsAnErrorForAll) {
  std::atomic<int> errors = 0;
  on_ranks(3, {.chunk_bytes = 4096, .stall_s = kPatience_s}, [&](int rank, Channel& channel) {
    if (rank == 2) return channel.abort();
    const std::vector<Box> boxes = {Box({0, 0}, {500, 60})};
    Buffers out(boxes), in(boxes);
    const std::vector<Traffic> sends = {{2, out.wire}}, receives = {{2, in.wire}};
    const absl::Status status = channel.run(sends, receives);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(message_of(status), HasSubstr(fmt::format("rank {} of 3", rank)));
    EXPECT_TRUE(absl::IsUnavailable(channel.run(sends, receives))) << "it is over";
    ++errors;
  });
  EXPECT_EQ(errors, 2);
}

TEST(Channel, APeerThatStandsStillIsGivenUp) {
  std::atomic<bool> given_up = false;
  on_ranks(2, {.chunk_bytes = 4096, .stall_s = 0.3, .begin_s = 0.3}, [&](int rank, Channel& channel) {
    if (rank == 1) {
      while (!given_up) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    Buffers in({Box({0, 0}, {500, 60})});
    const std::vector<Traffic> receives = {{1, in.wire}};
    const absl::Status status = channel.run({}, receives);
    given_up = true;
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  });
  EXPECT_TRUE(given_up);
}

TEST(Channel, RoomIsMadeBefore) {
  on_ranks(1, {.chunk_bytes = 1024}, [&](int, Channel& channel) {
    EXPECT_TRUE(channel.reserve(4).ok());
    EXPECT_TRUE(channel.run({}, {}).ok()) << "nothing to do is done";
  });
}

}  // namespace
}  // namespace scalai::executor::exchange
