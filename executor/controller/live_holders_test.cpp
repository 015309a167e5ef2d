#include "executor/controller/live_holders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ptc/base/random.h"

namespace scalai::executor::controller {
namespace live_holders_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LiveHoldersTest : public ::testing::Test {
 protected:
  void note_reader(uint64_t reader, const std::string& machine = "m", const std::set<int64_t>& versions = {1, 2}) {
    holders_.note_reader(reader, {.machine = machine, .address = "at " + std::to_string(reader)}, versions);
  }
  std::vector<uint64_t> touch(uint64_t reader, int64_t block, int64_t version = 1, std::vector<int64_t> dropped = {},
                              std::vector<uint64_t> unreached = {}, int64_t bytes = 1) {
    std::vector<uint64_t> readers;
    for (const LiveHolders::Source& one : holders_.touch(reader, {version, block, bytes}, dropped, unreached)) {
      EXPECT_EQ(one.address, "at " + std::to_string(one.reader));
      readers.push_back(one.reader);
    }
    return readers;
  }
  LiveHolders holders_;
};

TEST_F(LiveHoldersTest, WhoTouchesABlockIsASourceOfTheNext) {
  for (uint64_t reader = 1; reader <= 4; ++reader) note_reader(reader);
  EXPECT_THAT(touch(1, 7), IsEmpty());
  EXPECT_THAT(touch(2, 7), ElementsAre(1));
  EXPECT_THAT(touch(3, 7), ElementsAre(2, 1)) << "the one that has given nothing yet comes first";
  EXPECT_THAT(touch(4, 7), ElementsAre(3, 1));
  EXPECT_THAT(touch(4, 8), IsEmpty()) << "another block";
  EXPECT_THAT(touch(4, 7, 2), IsEmpty()) << "another step";
  EXPECT_THAT(touch(1, 7).size(), 2U) << "and never itself";
}

TEST_F(LiveHoldersTest, TheNearestComesFirst) {
  note_reader(1, "far");
  note_reader(2, "near");
  note_reader(3, "near");
  note_reader(4, "far");
  touch(1, 7);
  EXPECT_THAT(touch(2, 7), ElementsAre(1));
  EXPECT_THAT(touch(3, 7), ElementsAre(2, 1));
  EXPECT_THAT(touch(4, 7), ElementsAre(1, 3));
}

TEST_F(LiveHoldersTest, WhatIsGoneIsNotNamed) {
  for (uint64_t reader = 1; reader <= 5; ++reader) note_reader(reader);
  touch(1, 7);
  touch(1, 8, 1, {7});  // which it has dropped
  EXPECT_THAT(touch(2, 7), IsEmpty());
  EXPECT_THAT(touch(2, 8), ElementsAre(1));
  EXPECT_THAT(touch(3, 8, 1, {}, {1}), ElementsAre(2)) << "it does not reach 1";
  holders_.remove(2);
  EXPECT_THAT(touch(4, 8), ElementsAre(3, 1));
  note_reader(3, "m", {2});  // it has let go of the step
  EXPECT_THAT(touch(5, 8), ElementsAre(4, 1));
  EXPECT_THAT(touch(2, 8), IsEmpty()) << "a reader that nobody has heard";
  holders_.forget(1);
  EXPECT_THAT(touch(5, 8), IsEmpty());
}

TEST_F(LiveHoldersTest, AReaderThatAnswersNobodyIsNoSource) {
  holders_.note_reader(1, {.machine = "m", .address = ""}, {1});
  note_reader(2);
  EXPECT_THAT(touch(1, 7), IsEmpty());
  EXPECT_THAT(touch(2, 7), IsEmpty());
  EXPECT_THAT(touch(1, 7), ElementsAre(2)) << "but it reads from others";
}

// Readers in any order, each through all blocks: the workers give each block once, and nobody gives much more than
// others.
TEST_F(LiveHoldersTest, TheLoadIsEven) {
  constexpr int64_t kReaders = 8, kBlocks = 400;
  for (const uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    Random random(seed);
    holders_ = {};
    for (uint64_t reader = 1; reader <= kReaders; ++reader) note_reader(reader);
    std::vector<int64_t> bytes_of;
    for (int64_t block = 0; block < kBlocks; ++block)
      bytes_of.push_back(random.between(0, 2) == 0 ? 1000 : random.between(1, 99));
    const int64_t all = std::accumulate(bytes_of.begin(), bytes_of.end(), int64_t{0});
    std::map<uint64_t, int64_t> at, gave;
    int64_t from_workers = 0;
    while (at.size() < kReaders ||
           std::any_of(at.begin(), at.end(), [](const auto& one) { return one.second < kBlocks; })) {
      const auto reader = static_cast<uint64_t>(random.between(1, kReaders));
      if (at[reader] == kBlocks) continue;
      const int64_t bytes = bytes_of[static_cast<size_t>(at[reader])];
      const std::vector<uint64_t> sources = touch(reader, at[reader]++, 1, {}, {}, bytes);
      (sources.empty() ? from_workers : gave[sources.front()]) += bytes;
    }
    EXPECT_EQ(from_workers, all);
    for (const auto& [reader, bytes] : gave)
      EXPECT_LE(static_cast<double>(bytes),
                1.2 * static_cast<double>((kReaders - 1) * all) / static_cast<double>(kReaders))
          << reader;
  }
}

// Readers on machines of their own, whose workers' hosts give half of what workers give.
struct Load {
  static constexpr int64_t kHosts = 2, kBlocks = 400;
  int64_t from_workers = 0;
  std::map<uint64_t, int64_t> gave;
  double hottest_x_mean(int64_t readers) const {
    std::vector<double> senders(kHosts, static_cast<double>(from_workers) / kHosts);
    for (const auto& [reader, blocks] : gave) senders.push_back(static_cast<double>(blocks));
    return *std::max_element(senders.begin(), senders.end()) * static_cast<double>(kHosts + readers) /
           std::accumulate(senders.begin(), senders.end(), 0.0);
  }
};

// The last one to come to a block gives it to nobody, here always the same: the others would give 1.25 x the mean.
TEST_F(LiveHoldersTest, TheHottestOfEightSendersIsNearTheMean) {
  for (const int64_t readers : {7, 8, 12, 16}) {
    for (const char* how : {"one by one", "in turns", "a window each in turns"}) {
      SCOPED_TRACE(std::to_string(readers) + " " + how);
      holders_ = {};
      Load load;
      for (int64_t reader = 1; reader <= readers; ++reader)
        note_reader(static_cast<uint64_t>(reader), std::to_string(reader));
      holders_.expect(1, Load::kHosts, readers);
      const int64_t window = *how == 'o' ? Load::kBlocks : *how == 'i' ? 1 : 16;
      for (int64_t begin = 0; begin < Load::kBlocks; begin += window) {
        for (int64_t reader = 1; reader <= readers; ++reader) {
          for (int64_t block = begin; block < begin + window; ++block) {
            const std::vector<uint64_t> sources = touch(static_cast<uint64_t>(reader), block);
            ++(sources.empty() ? load.from_workers : load.gave[sources.front()]);
          }
        }
      }
      EXPECT_LE(load.hottest_x_mean(readers), 1.2);
      EXPECT_LE(load.from_workers, readers < 10 ? Load::kBlocks * 3 / 2 : Load::kBlocks);
    }
  }
}

// On one machine nothing crosses a network, which workers would have to.
TEST_F(LiveHoldersTest, WorkersGiveOnceToReadersOfOneMachine) {
  constexpr int64_t kReaders = 8, kBlocks = 100;
  for (uint64_t reader = 1; reader <= kReaders; ++reader) note_reader(reader);
  holders_.expect(1, 2, kReaders);
  int64_t from_workers = 0;
  for (uint64_t reader = 1; reader <= kReaders; ++reader) {
    for (int64_t block = 0; block < kBlocks; ++block) from_workers += touch(reader, block).empty() ? 1 : 0;
  }
  EXPECT_EQ(from_workers, kBlocks);
}

TEST_F(LiveHoldersTest, SoManyHoldersOfABlockAreKnown) {
  constexpr uint64_t kReaders = 3 * LiveHolders::kMostHolders;
  std::map<uint64_t, int> gave;
  for (uint64_t reader = 1; reader <= kReaders; ++reader) {
    note_reader(reader);
    const std::vector<uint64_t> sources = touch(reader, 7);
    if (!sources.empty()) ++gave[sources.front()];
  }
  EXPECT_EQ(gave.size(), LiveHolders::kMostHolders);
  for (const auto& [reader, times] : gave) EXPECT_LE(times, 3) << reader;
}

}  // namespace live_holders_test
}  // namespace scalai::executor::controller
