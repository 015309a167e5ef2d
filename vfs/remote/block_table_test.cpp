#include "vfs/remote/block_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ptc/base/status.h"

namespace scalai::vfs {
namespace {

Block block(size_t bytes, int value = 0) {
  return std::make_shared<const std::vector<std::byte>>(bytes, static_cast<std::byte>(value));
}

TEST(BlockTable, TheFirstFetchesTheOthersWait) {
  BlockTable table(1000);
  const BlockTable::Claim mine = table.claim({"a", 0});
  ASSERT_TRUE(mine.ours);
  std::atomic<int> got = 0;
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([&] {
      const BlockTable::Claim claim = table.claim({"a", 0});
      EXPECT_FALSE(claim.ours);
      const absl::StatusOr<Block> found = table.wait(claim);
      got += found.ok() && (*found)->size() == 10;
    });
  }
  EXPECT_EQ(table.claim_if_absent({"a", 0}).slot, nullptr);
  table.complete(mine, block(10));
  for (std::thread& thread : others) thread.join();
  EXPECT_EQ(got, 4);
  EXPECT_FALSE(table.claim({"a", 0}).ours) << "it is in memory";
  EXPECT_TRUE(table.claim({"a", 1}).ours);
  EXPECT_TRUE(table.claim({"b", 0}).ours);
}

TEST(BlockTable, AnErrorIsToldAndForgotten) {
  BlockTable table(1000);
  const BlockTable::Claim mine = table.claim({"a", 0}), other = table.claim({"a", 0});
  table.complete(mine, invalid("no"));
  EXPECT_EQ(table.wait(other).status(), invalid("no"));
  EXPECT_TRUE(table.claim({"a", 0}).ours);
}

TEST(BlockTable, KeepsWhatWasUsedLast) {
  BlockTable table(30);
  for (int i = 0; i < 3; ++i) table.complete(table.claim({"a", i}), block(10, i));
  EXPECT_FALSE(table.claim({"a", 0}).ours);  // used: 1 is the oldest now
  table.complete(table.claim({"a", 3}), block(10, 3));
  EXPECT_EQ(table.bytes(), 30);
  EXPECT_FALSE(table.claim({"a", 0}).ours);
  EXPECT_TRUE(table.claim({"a", 1}).ours);
}

TEST(BlockTable, WhoClaimedABlockStillGetsItAfterItWent) {
  BlockTable table(0);
  const BlockTable::Claim mine = table.claim({"a", 0});
  table.complete(mine, block(10, 5));
  EXPECT_EQ(table.bytes(), 0);
  const absl::StatusOr<Block> found = table.wait(mine);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((**found)[9], static_cast<std::byte>(5));
  EXPECT_TRUE(table.claim({"a", 0}).ours);
}

}  // namespace
}  // namespace scalai::vfs
