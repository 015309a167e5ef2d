// One process, several ranks: as threads, or driven by one thread.

#include "executor/nccl/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "executor/nccl/testing/support.h"
#include "ptc/base/status.h"

namespace scalai::executor::nccl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommunicatorTest : public ::testing::Test {
 protected:
  const NcclApi& api_ = fake_nccl().api();

  NcclUniqueId new_id() const { return *make_unique_id(api_); }

  std::vector<Communicator> members(int size) const {
    std::vector<int> ranks(static_cast<size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    auto joined = Communicator::join_several(api_, {new_id(), 0, size}, ranks, nullptr, soon_enough());
    EXPECT_TRUE(joined.ok()) << joined.status();
    return joined.ok() ? std::move(*joined) : std::vector<Communicator>();
  }

  // Each rank's work on a thread of its own.
  static std::vector<absl::Status> each(std::vector<Communicator>& ranks,
                                        const std::function<absl::Status(Communicator&)>& work) {
    std::vector<absl::Status> results(ranks.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] { results[i] = work(ranks[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  static void expect_all_to_all(std::vector<Communicator>& ranks, uint64_t seed, int n = 2) {
    for (const absl::Status& status :
         each(ranks, [&](Communicator& rank) { return all_to_all(rank, seed, n, soon_enough()); })) {
      EXPECT_TRUE(status.ok()) << status << ", seed " << seed;
    }
  }

  // A group of one rank that waits for bytes that nobody sends.
  static absl::Status wait_in_vain(Communicator& rank, int peer, milliseconds time) {
    std::byte byte{};
    absl::Status status = rank.start_group();
    if (status.ok()) status = rank.receive(peer, &byte, 1, nullptr);
    return status.ok() ? rank.end_group(in(time)) : status;
  }
};

// --- joining ---------------------------------------------------------------------------------------------------------

TEST_F(CommunicatorTest, SeveralJoinAtOnceEachOnItsDevice) {
  const std::vector<int> ranks = {2, 0, 1};
  std::vector<int> order;
  const auto set_device = [&](int n) {
    order.push_back(n);
    return absl::OkStatus();
  };
  auto joined = Communicator::join_several(api_, {new_id(), 0, 3}, ranks, set_device, soon_enough());
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ((*joined)[i].rank(), ranks[i]);
    EXPECT_EQ((*joined)[i].size(), 3);
    EXPECT_TRUE((*joined)[i].healthy());
    EXPECT_TRUE((*joined)[i].status().ok());
  }
  expect_all_to_all(*joined, 1);
}

TEST_F(CommunicatorTest, ADeviceThatCannotBeSetLeavesNothingBehind) {
  const NcclUniqueId id = new_id();
  const std::vector<int> ranks = {0, 1};
  const auto refuse_second = [](int n) { return n == 1 ? missing("no device 7") : absl::OkStatus(); };
  const auto joined = Communicator::join_several(api_, {id, 0, 2}, ranks, refuse_second, soon_enough());
  EXPECT_EQ(joined.status(), missing("no device 7"));
  // Neither a group of this thread nor the first rank is still there.
  const auto again = Communicator::join_several(api_, {id, 0, 2}, ranks, nullptr, soon_enough());
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST_F(CommunicatorTest, JoiningEndsAtTheDeadline) {
  const auto begin = std::chrono::steady_clock::now();
  const auto joined = Communicator::join(api_, {new_id(), 0, 2}, in(milliseconds(200)));
  EXPECT_EQ(joined.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(message_of(joined.status()), HasSubstr("rank 0 of 2: joining the communicator: not done in time"));
  EXPECT_GE(ms_since(begin), 200);
  EXPECT_LT(ms_since(begin), 2'000);
}

TEST_F(CommunicatorTest, JoiningCanBeGivenUp) {
  std::stop_source source;
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(50));
    source.request_stop();
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto joined = Communicator::join(api_, {new_id(), 1, 2}, soon_enough(), source.get_token());
  stopper.join();
  EXPECT_EQ(joined.status().code(), absl::StatusCode::kCancelled);
  EXPECT_LT(ms_since(begin), 2'000);
}

TEST_F(CommunicatorTest, RanksThatDisagreeOrDoubleAreRefused) {
  const NcclUniqueId id = new_id();
  const std::vector<int> twice = {1, 1};
  const auto begin = std::chrono::steady_clock::now();
  const auto doubled = Communicator::join_several(api_, {id, 0, 3}, twice, nullptr, soon_enough());
  EXPECT_LT(ms_since(begin), 2'000) << "not behind the first, which waits for rank 2";
  EXPECT_EQ(doubled.status().code(), absl::StatusCode::kFailedPrecondition) << doubled.status();
  const auto foreign = Communicator::join(api_, {NcclUniqueId{}, 0, 1}, soon_enough());
  EXPECT_EQ(foreign.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(foreign.status()), HasSubstr("not a unique id"));
}

TEST_F(CommunicatorTest, UniqueIdsTravelAsBytes) {
  const NcclUniqueId id = new_id();
  EXPECT_EQ(bytes_of(id).size(), 128u);
  EXPECT_EQ(*unique_id_of(bytes_of(id)), id);
  EXPECT_FALSE(new_id() == id);
  EXPECT_EQ(unique_id_of("short").status(), invalid("a unique id of NCCL has 128 bytes, not 5"));
}

// --- groups ----------------------------------------------------------------------------------------------------------

TEST_F(CommunicatorTest, OneRankSendsToItself) {
  auto alone = members(1);
  ASSERT_EQ(alone.size(), 1u);
  expect_all_to_all(alone, 3, 5);
}

TEST_F(CommunicatorTest, RandomAllToAll) {
  const auto seed = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE(fmt::format("seed {}", seed));
  for (const int size : {2, 3, 5}) {
    auto ranks = members(size);
    for (uint64_t round = 0; round < 4; ++round) expect_all_to_all(ranks, seed + round, 3);
  }
}

TEST_F(CommunicatorTest, LargeRing) {
  constexpr size_t kBytes = size_t{64} << 20;
  auto ranks = members(2);
  for (const absl::Status& status : each(ranks, [&](Communicator& rank) {
         const int next = (rank.rank() + 1) % 2;
         const auto out = message(9, rank.rank(), next, 0, kBytes);
         std::vector<std::byte> in_bytes(kBytes);
         absl::Status result = rank.start_group();
         result.Update(rank.send(next, out.data(), kBytes, nullptr));
         result.Update(rank.receive(next, in_bytes.data(), kBytes, nullptr));
         result.Update(rank.end_group(soon_enough()));
         if (result.ok() && in_bytes != message(9, next, rank.rank(), 0, kBytes)) result = failed("wrong bytes");
         return result;
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(CommunicatorTest, OneThreadDrivesAllItsRanks) {
  auto ranks = members(3);
  std::vector<int> values = {10, 11, 12}, got(3);
  for (auto& rank : ranks) {
    const auto i = static_cast<size_t>(rank.rank());
    ASSERT_TRUE(rank.start_group().ok());
    ASSERT_TRUE(rank.send((rank.rank() + 1) % 3, &values[i], sizeof(int), nullptr).ok());
    ASSERT_TRUE(rank.receive((rank.rank() + 2) % 3, &got[i], sizeof(int), nullptr).ok());
    ASSERT_TRUE(rank.post_group().ok());
  }
  for (auto& rank : ranks) EXPECT_TRUE(rank.wait_posted(soon_enough()).ok());
  EXPECT_THAT(got, ElementsAre(12, 10, 11));
}

TEST_F(CommunicatorTest, AGroupOfNothingNeedsNobody) {
  auto ranks = members(2);
  ASSERT_TRUE(ranks[0].start_group().ok());
  ASSERT_TRUE(ranks[0].send(1, nullptr, 0, nullptr).ok());
  EXPECT_TRUE(ranks[0].end_group(in(milliseconds(0))).ok());
}

TEST_F(CommunicatorTest, SizesThatDifferAreRefused) {
  auto ranks = members(2);
  const auto results = each(ranks, [&](Communicator& rank) {
    std::array<std::byte, 8> data{};
    absl::Status result = rank.start_group();
    if (rank.rank() == 0) result.Update(rank.send(1, data.data(), 8, nullptr));
    if (rank.rank() == 1) result.Update(rank.receive(0, data.data(), 7, nullptr));
    result.Update(rank.end_group(soon_enough()));
    return result;
  });
  EXPECT_EQ(results[1].code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(results[1]), HasSubstr("8 bytes where 7"));
  EXPECT_FALSE(ranks[1].healthy());
}

TEST_F(CommunicatorTest, MisuseIsABug) {
  auto ranks = members(1);
  std::byte byte{};
  EXPECT_DEATH((void)ranks[0].send(0, &byte, 1, nullptr), "outside of a group");
  ASSERT_TRUE(ranks[0].start_group().ok());
  EXPECT_DEATH((void)ranks[0].send(1, &byte, 1, nullptr), "peer 1 of 1");
  EXPECT_DEATH((void)ranks[0].start_group(), "not ended");
}

// --- failures --------------------------------------------------------------------------------------------------------

TEST_F(CommunicatorTest, AHangingGroupEndsAtTheDeadlineAndTheRestWithIt) {
  std::vector<Communicator> ranks;
  {
    const ScopedEnvironment hang("SCALAI_FAKE_NCCL_HANG_AFTER", "2");
    ranks = members(2);
  }
  expect_all_to_all(ranks, 5);
  const auto begin = std::chrono::steady_clock::now();
  const auto results = each(ranks, [](Communicator& rank) { return all_to_all(rank, 6, 1, in(milliseconds(150))); });
  EXPECT_GE(ms_since(begin), 150);
  EXPECT_LT(ms_since(begin), 2'000);
  // One may see the other go first.
  EXPECT_TRUE(absl::IsDeadlineExceeded(results[0]) || absl::IsDeadlineExceeded(results[1])) << results[0] << results[1];
  for (Communicator& rank : ranks) {
    EXPECT_FALSE(rank.healthy());
    EXPECT_EQ(rank.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(message_of(rank.start_group()), AllOf(HasSubstr("has ended"), HasSubstr("a group: ")));
    EXPECT_EQ(rank.end_group(soon_enough()).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(rank.send(0, nullptr, 1, nullptr).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(rank.shrink(std::vector<int>{1 - rank.rank()}, soon_enough()).status().code(),
              absl::StatusCode::kFailedPrecondition);
    rank.abort();  // again: nothing
  }
}

TEST_F(CommunicatorTest, AbortFromAnotherThreadEndsAWait) {
  auto ranks = members(2);
  std::atomic<int64_t> aborted_at{0};
  const auto begin = std::chrono::steady_clock::now();
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(50));
    aborted_at = ms_since(begin);
    ranks[0].abort();
  });
  const absl::Status status = wait_in_vain(ranks[0], 1, milliseconds(10'000));
  const int64_t after = ms_since(begin) - aborted_at;
  other.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_LT(after, 500);
  EXPECT_FALSE(ranks[0].healthy());
  // The other rank hears of it: its connection is gone.
  EXPECT_EQ(wait_in_vain(ranks[1], 0, milliseconds(10'000)).code(), absl::StatusCode::kUnavailable);
}

// Its memory may be given away then.
TEST_F(CommunicatorTest, WhoWaitsReturnsWhenTheAbortIsOver) {
  static std::atomic<bool> over;
  over = false;
  NcclApi slow = api_;
  slow.comm_abort = [](NcclComm* comm) {
    std::this_thread::sleep_for(milliseconds(100));
    const NcclResult result = fake_nccl().api().comm_abort(comm);
    over = true;
    return result;
  };
  auto alone = Communicator::join(slow, {new_id(), 0, 1}, soon_enough());
  ASSERT_TRUE(alone.ok());
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(20));
    alone->abort();
  });
  const auto never = []() -> absl::StatusOr<bool> { return false; };
  EXPECT_EQ(alone->watch(never, soon_enough()).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(over);
  other.join();
}

// The fake ends the process when a communicator that was given back is used.
TEST_F(CommunicatorTest, AbortAtAnyMomentTouchesNothingFreed) {
  const auto seed = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Random random(seed);
  for (int round = 0; round < 40; ++round) {
    auto ranks = members(2);
    const auto delay = std::chrono::microseconds(random.between(0, 3'000));
    std::vector<std::thread> others;
    for (int i = 0; i < 3; ++i) {
      others.emplace_back([&, i] {
        std::this_thread::sleep_for(delay);
        ranks[static_cast<size_t>(i % 2)].abort();
        EXPECT_FALSE(ranks[static_cast<size_t>(i % 2)].healthy());
      });
    }
    each(ranks, [&](Communicator& rank) {
      absl::Status status;
      for (int n = 0; status.ok(); ++n) status = all_to_all(rank, seed + static_cast<uint64_t>(n), 1, soon_enough());
      EXPECT_NE(status.code(), absl::StatusCode::kDataLoss) << status;
      return status;
    });
    for (std::thread& other : others) other.join();
  }
}

TEST_F(CommunicatorTest, WatchWaitsForWhatComesBehind) {
  auto ranks = members(2);
  int asked = 0;
  EXPECT_TRUE(ranks[0].watch([&]() -> absl::StatusOr<bool> { return ++asked == 5; }, soon_enough()).ok());
  EXPECT_EQ(asked, 5);
  EXPECT_TRUE(ranks[0].healthy());

  const auto never = []() -> absl::StatusOr<bool> { return false; };
  EXPECT_EQ(ranks[0].watch(never, in(milliseconds(50))).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(ranks[0].healthy());
  // The other one is told by NCCL.
  EXPECT_EQ(ranks[1].watch(never, soon_enough()).code(), absl::StatusCode::kUnavailable);

  auto alone = members(1);
  const auto broken = []() -> absl::StatusOr<bool> { return failed("cudaErrorIllegalAddress"); };
  EXPECT_EQ(alone[0].watch(broken, soon_enough()), failed("cudaErrorIllegalAddress"));
  EXPECT_FALSE(alone[0].healthy());
}

TEST_F(CommunicatorTest, AnEventThatPassesBecauseOfAnAbortIsNoSuccess) {
  auto alone = members(1);
  const auto aborts = [&]() -> absl::StatusOr<bool> {
    alone[0].abort();
    return true;
  };
  EXPECT_EQ(alone[0].watch(aborts, soon_enough()).code(), absl::StatusCode::kCancelled);
}

// --- members that go -------------------------------------------------------------------------------------------------

TEST_F(CommunicatorTest, ShrunkIsAsGoodAsNew) {
  auto ranks = members(5);
  std::vector<Communicator> staying, shrunk;
  for (auto& rank : ranks) {
    if (rank.rank() != 1 && rank.rank() != 3) staying.push_back(std::move(rank));
  }
  std::mutex mutex;
  const std::vector<int> gone = {3, 1, 3};
  each(staying, [&](Communicator& rank) {
    auto child = rank.shrink(gone, soon_enough());
    EXPECT_TRUE(child.ok()) << child.status();
    const std::scoped_lock lock(mutex);
    if (child.ok()) shrunk.push_back(std::move(*child));
    return child.status();
  });
  ASSERT_EQ(shrunk.size(), 3u);
  std::sort(shrunk.begin(), shrunk.end(), [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
  auto fresh = members(3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(shrunk[i].rank(), fresh[i].rank());
    EXPECT_EQ(shrunk[i].size(), fresh[i].size());
    EXPECT_EQ(staying[i].size(), 5);
    EXPECT_TRUE(staying[i].healthy());
  }
  for (uint64_t seed = 20; seed < 23; ++seed) {
    expect_all_to_all(shrunk, seed);
    expect_all_to_all(fresh, seed);
  }
  // The one it came from may go first.
  staying.clear();
  expect_all_to_all(shrunk, 24);
}

TEST_F(CommunicatorTest, ShrinkThatIsRefusedLeavesTheParentAsItWas) {
  auto ranks = members(2);
  {
    const ScopedEnvironment no("SCALAI_FAKE_NCCL_NO_SHRINK", "1");
    const auto child = ranks[0].shrink(std::vector<int>{1}, soon_enough());
    EXPECT_EQ(child.status().code(), absl::StatusCode::kFailedPrecondition);
  }
  expect_all_to_all(ranks, 30);
  NcclApi old = api_;
  old.comm_shrink = nullptr;
  auto alone = Communicator::join(old, {new_id(), 0, 1}, soon_enough());
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->shrink(std::vector<int>{0}, soon_enough()).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(CommunicatorTest, ShrinkingWithoutTheOthersEndsAtTheDeadline) {
  auto ranks = members(3);
  const auto begin = std::chrono::steady_clock::now();
  const auto child = ranks[0].shrink(std::vector<int>{2}, in(milliseconds(100)));
  EXPECT_EQ(child.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(ms_since(begin), 2'000);
  EXPECT_FALSE(ranks[0].healthy());
}

TEST_F(CommunicatorTest, AbortEndsAShrink) {
  auto ranks = members(3);
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(50));
    ranks[0].abort();
  });
  const auto child = ranks[0].shrink(std::vector<int>{2}, soon_enough());
  other.join();
  EXPECT_EQ(child.status().code(), absl::StatusCode::kCancelled) << child.status();
}

TEST_F(CommunicatorTest, LeavingThatDoesNotEndBecomesAnAbort) {
  static std::atomic<int> aborts;
  static std::atomic<bool> leaving;
  aborts = 0;
  leaving = false;
  NcclApi stuck = api_;
  stuck.comm_finalize = [](NcclComm*) {
    leaving = true;
    return NcclResult::kInProgress;
  };
  stuck.comm_get_async_error = [](NcclComm* comm, NcclResult* error) {
    const NcclResult result = fake_nccl().api().comm_get_async_error(comm, error);
    if (leaving) *error = NcclResult::kInProgress;
    return result;
  };
  stuck.comm_abort = [](NcclComm* comm) {
    ++aborts;
    return fake_nccl().api().comm_abort(comm);
  };
  std::chrono::steady_clock::time_point start;
  {
    const auto alone = Communicator::join(stuck, {new_id(), 0, 1}, soon_enough());
    ASSERT_TRUE(alone.ok());
    start = std::chrono::steady_clock::now();
  }
  EXPECT_EQ(aborts, 1);
  EXPECT_GE(ms_since(start), 2'000);
  EXPECT_LT(ms_since(start), 4'000);
}

TEST_F(CommunicatorTest, LeavingInGoodOrderIsNoErrorForTheRest) {
  auto ranks = members(3);
  expect_all_to_all(ranks, 40);
  const auto begin = std::chrono::steady_clock::now();
  ranks.erase(ranks.begin());
  EXPECT_LT(ms_since(begin), 1'000);
  std::this_thread::sleep_for(milliseconds(20));
  int asked = 0;
  EXPECT_TRUE(ranks[0].watch([&]() -> absl::StatusOr<bool> { return ++asked > 5; }, soon_enough()).ok());
  // But nobody can talk to it any more.
  const int gone = 3 - ranks[0].rank() - ranks[1].rank();
  EXPECT_EQ(wait_in_vain(ranks[0], gone, milliseconds(10'000)).code(), absl::StatusCode::kUnavailable);
}

TEST_F(CommunicatorTest, LeavingWithAGroupOnItsWayAborts) {
  auto ranks = members(2);
  std::byte byte{};
  ASSERT_TRUE(ranks[0].start_group().ok());
  ASSERT_TRUE(ranks[0].receive(1, &byte, 1, nullptr).ok());
  ASSERT_TRUE(ranks[0].post_group().ok());
  const auto begin = std::chrono::steady_clock::now();
  ranks.erase(ranks.begin());
  EXPECT_LT(ms_since(begin), 1'000);
}

}  // namespace
}  // namespace scalai::executor::nccl
