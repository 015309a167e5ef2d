#include "ptc/store/datasets/views/shard_tables.h"

#include <gtest/gtest.h>

namespace scalai::datasets {
namespace {

ShardTablePtr table_of(std::vector<int64_t> samples) {
  auto table = std::make_shared<ShardTable>();
  table->samples = std::move(samples);
  table->bytes_each = 10;
  return table;
}

TEST(ShardTable, FindsTheSampleOfAByte) {
  ShardTable table;
  table.samples = {5, 7, 1, 0};
  table.ends = {3, 3, 8, 8};  // the second and the last are empty
  EXPECT_EQ(table.count(), 4);
  for (const auto& [byte, sample] : {std::pair(0, 0), {2, 0}, {3, 2}, {7, 2}}) EXPECT_EQ(table.at_byte(byte), sample);
  EXPECT_EQ(table.begin_of(0), 0);
  EXPECT_EQ(table.begin_of(2), 3);
  EXPECT_EQ(table.begin_of(4), 8);
}

TEST(ShardTable, SamplesOfOneSizeNeedNoEnds) {
  const ShardTablePtr table = table_of({5, 7, 1});
  EXPECT_EQ(table->at_byte(9), 0);
  EXPECT_EQ(table->at_byte(10), 1);
  EXPECT_EQ(table->at_byte(29), 2);
  EXPECT_EQ(table->begin_of(3), 30);
}

TEST(ShardTables, KeepsThoseUsedLast) {
  const int64_t each = table_of({1, 2, 3})->memory_bytes();
  ShardTables tables(3 * each);
  const uint64_t view = tables.new_view();
  for (int64_t shard = 0; shard < 3; ++shard) tables.keep(view, shard, table_of({shard, 0, 0}));
  EXPECT_NE(tables.find(view, 0), nullptr);
  tables.keep(view, 3, table_of({3, 0, 0}));
  EXPECT_EQ(tables.find(view, 1), nullptr);  // 0 was used after it
  for (const int64_t shard : {0, 2, 3}) {
    ASSERT_NE(tables.find(view, shard), nullptr);
    EXPECT_EQ(tables.find(view, shard)->samples[0], shard);
  }
  EXPECT_EQ(tables.bytes(), 3 * each);
}

TEST(ShardTables, ViewsDoNotMeet) {
  ShardTables tables;
  const uint64_t one = tables.new_view(), other = tables.new_view();
  tables.keep(one, 0, table_of({1}));
  EXPECT_EQ(tables.find(other, 0), nullptr);
  tables.keep(other, 0, table_of({2}));
  EXPECT_EQ(tables.find(one, 0)->samples[0], 1);
  EXPECT_EQ(tables.find(other, 0)->samples[0], 2);
}

TEST(ShardTables, ATableThatIsKeptTwiceCountsOnce) {
  ShardTables tables;
  const uint64_t view = tables.new_view();
  tables.keep(view, 0, table_of({1, 2}));
  const int64_t bytes = tables.bytes();
  tables.keep(view, 0, table_of({1, 2}));
  EXPECT_EQ(tables.bytes(), bytes);
}

TEST(ShardTables, WhatIsLargerThanTheBoundIsNotKept) {
  ShardTables tables(8);
  const uint64_t view = tables.new_view();
  tables.keep(view, 0, table_of({1, 2}));
  EXPECT_EQ(tables.find(view, 0), nullptr);
  EXPECT_EQ(tables.bytes(), 0);
}

}  // namespace
}  // namespace scalai::datasets
