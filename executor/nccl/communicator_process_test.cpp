// Each rank in a process of its own: what deaths, stopped processes and deadlines do to the rest.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <thread>

#include "executor/nccl/communicator.h"
#include "executor/nccl/testing/support.h"
#include "executor/nccl/testing/test_rank.h"

namespace scalai::executor::nccl {
namespace {

using ::testing::AnyOf;
using ::testing::StartsWith;

constexpr int64_t kTimeMs = 15'000;

class CommunicatorProcessTest : public ::testing::Test {
 protected:
  std::vector<RankProcess> start(int count, const SpawnOptions::Variables& environment_of_last = {}) const {
    std::vector<RankProcess> ranks;
    for (int i = 0; i + 1 < count; ++i) ranks.emplace_back();
    ranks.emplace_back(environment_of_last);
    return ranks;
  }

  // Makes one communicator of them, in this order.
  static void join(std::vector<RankProcess>& ranks) {
    const NcclUniqueId id = *make_unique_id(fake_nccl().api());
    const int size = static_cast<int>(ranks.size());
    for (int rank = 0; rank < size; ++rank) ranks[static_cast<size_t>(rank)].join(id, rank, size, kTimeMs);
    expect_ok(ranks);
  }

  static void expect_ok(std::vector<RankProcess>& ranks) {
    for (RankProcess& rank : ranks) EXPECT_EQ(rank.answer().result, "ok");
  }

  static void expect_all_to_all(std::vector<RankProcess>& ranks, uint64_t seed) {
    for (RankProcess& rank : ranks) rank.all_to_all(seed, 2, kTimeMs);
    expect_ok(ranks);
  }
};

TEST_F(CommunicatorProcessTest, RingsAndAllToAll) {
  auto ranks = start(4);
  join(ranks);
  for (uint64_t seed = 1; seed < 4; ++seed) expect_all_to_all(ranks, seed);
  for (RankProcess& rank : ranks) rank.ring(size_t{8} << 20, kTimeMs);
  expect_ok(ranks);
  for (RankProcess& rank : ranks) EXPECT_EQ(rank.end(), 0);
}

TEST_F(CommunicatorProcessTest, LargeMessages) {
  auto ranks = start(2);
  join(ranks);
  for (RankProcess& rank : ranks) rank.ring(size_t{64} << 20, kTimeMs);
  expect_ok(ranks);
}

TEST_F(CommunicatorProcessTest, SurvivorsOfAKilledProcessFailSoonAndJoinAnew) {
  auto ranks = start(4);
  join(ranks);
  RankProcess victim = std::move(ranks[2]);
  ranks.erase(ranks.begin() + 2, ranks.begin() + 3);
  for (RankProcess& rank : ranks) rank.all_to_all(7, 2, kTimeMs);  // they wait for the victim
  std::this_thread::sleep_for(milliseconds(100));
  victim.signal(SIGKILL);
  for (RankProcess& rank : ranks) {
    const RankProcess::Answer answer = rank.answer();
    EXPECT_THAT(answer.result, StartsWith("UNAVAILABLE rank "));
    EXPECT_LT(answer.ms, 2'000);
  }
  for (RankProcess& rank : ranks) {
    rank.all_to_all(8, 1, kTimeMs);
    EXPECT_THAT(rank.answer().result, StartsWith("FAILED_PRECONDITION rank "));
  }
  join(ranks);
  expect_all_to_all(ranks, 9);
}

TEST_F(CommunicatorProcessTest, AKillAmidLargeMessages) {
  auto ranks = start(3);
  join(ranks);
  for (RankProcess& rank : ranks) rank.ring(size_t{64} << 20, kTimeMs);
  std::this_thread::sleep_for(milliseconds(150));
  ranks[0].signal(SIGKILL);
  ranks.erase(ranks.begin());
  for (RankProcess& rank : ranks) {
    const RankProcess::Answer answer = rank.answer();
    EXPECT_THAT(answer.result, AnyOf("ok", StartsWith("UNAVAILABLE rank "))) << "ok where it had all it needed";
    EXPECT_LT(answer.ms, 5'000);
  }
  join(ranks);
  expect_all_to_all(ranks, 10);
}

TEST_F(CommunicatorProcessTest, AStoppedProcessIsLeftBehindAtTheDeadline) {
  auto ranks = start(3);
  join(ranks);
  RankProcess stopped = std::move(ranks[1]);
  ranks.erase(ranks.begin() + 1, ranks.begin() + 2);
  stopped.signal(SIGSTOP);
  for (RankProcess& rank : ranks) rank.all_to_all(11, 1, 300);
  int late = 0;
  for (RankProcess& rank : ranks) {
    const RankProcess::Answer answer = rank.answer();
    late += answer.result.starts_with("DEADLINE_EXCEEDED") ? 1 : 0;
    EXPECT_THAT(answer.result, AnyOf(StartsWith("DEADLINE_EXCEEDED rank "), StartsWith("UNAVAILABLE rank ")));
    EXPECT_GE(answer.ms, 250);
    EXPECT_LT(answer.ms, 2'000);
  }
  EXPECT_GE(late, 1);
  join(ranks);
  expect_all_to_all(ranks, 12);
}

TEST_F(CommunicatorProcessTest, AGroupThatHangsInOneProcess) {
  auto ranks = start(3, {{"SCALAI_FAKE_NCCL_HANG_AFTER", "2"}});
  join(ranks);
  expect_all_to_all(ranks, 13);
  for (RankProcess& rank : ranks) rank.all_to_all(14, 1, 300);
  for (RankProcess& rank : ranks) {
    const RankProcess::Answer answer = rank.answer();
    EXPECT_THAT(answer.result, AnyOf(StartsWith("DEADLINE_EXCEEDED rank "), StartsWith("UNAVAILABLE rank ")));
    EXPECT_LT(answer.ms, 2'000);
  }
}

TEST_F(CommunicatorProcessTest, ShrinkInsteadOfJoining) {
  auto ranks = start(4);
  join(ranks);
  expect_all_to_all(ranks, 15);
  RankProcess leaver = std::move(ranks[0]);
  ranks.erase(ranks.begin());
  for (RankProcess& rank : ranks) rank.shrink({0}, kTimeMs);
  expect_ok(ranks);
  expect_all_to_all(ranks, 16);
  EXPECT_EQ(leaver.end(), 0);
  expect_all_to_all(ranks, 17);  // its end does not matter any more
}

TEST_F(CommunicatorProcessTest, AnAbortInOneProcessIsSeenByTheRest) {
  auto ranks = start(3);
  join(ranks);
  for (size_t i = 1; i < 3; ++i) ranks[i].all_to_all(18, 1, kTimeMs);
  ranks[0].abort();
  EXPECT_EQ(ranks[0].answer().result, "ok");
  for (size_t i = 1; i < 3; ++i) EXPECT_THAT(ranks[i].answer().result, StartsWith("UNAVAILABLE rank "));
}

}  // namespace
}  // namespace scalai::executor::nccl

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == scalai::executor::nccl::kRankArgument)
    return scalai::executor::nccl::run_rank();
  ::testing::InitGoogleTest(&argc, argv);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // there are threads of the fake
  return RUN_ALL_TESTS();
}
