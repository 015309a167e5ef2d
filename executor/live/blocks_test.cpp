#include "executor/live/blocks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <set>
#include <thread>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::executor::live {
namespace blocks_test {

std::byte byte_at(int64_t entry, int64_t at) {
  return static_cast<std::byte>((entry * 131 + at * 7 + at / 251) & 0xff);
}

constexpr int64_t kBlock = 64;

struct Source {
  std::atomic<int> fetches = 0, questions = 0;
  std::atomic<bool> broken = false;
  Blocks::From from = Blocks::From::kHolder;
  int64_t ahead = 0;  // blocks before this one are whole and may be fetched ahead
  std::array<int64_t, Blocks::Source::kOrders> strides = {7, 1};
  std::set<int64_t> failing;
};

// Of an entry, whose first block has this number.
class Entry final : public Blocks::Source {
 public:
  Entry(blocks_test::Source& source, int64_t entry, int64_t first) : source_(source), entry_(entry), first_(first) {}
  Step step(int order, int64_t number, int64_t steps) const override {
    const int64_t to = number + steps * source_.strides[static_cast<size_t>(order)];
    return 0 <= to && to < source_.ahead ? Step{to, kBlock} : Step{};
  }
  void expect(std::span<const int64_t> numbers, std::span<const int64_t> bytes) override {
    ++source_.questions;
    EXPECT_TRUE(expected_.empty());
    expected_.assign(numbers.begin(), numbers.end());
    EXPECT_EQ(numbers.size(), bytes.size());
  }
  absl::StatusOr<Blocks::From> fetch(int64_t number, std::span<std::byte> dst) override {
    EXPECT_EQ(number, expected_.front());
    expected_.pop_front();
    ++source_.fetches;
    if (source_.broken || source_.failing.contains(number)) {
      expected_.clear();
      return absl::UnavailableError("broken");
    }
    for (size_t i = 0; i < dst.size(); ++i)
      dst[i] = byte_at(entry_, (number - first_) * kBlock + static_cast<int64_t>(i));
    return source_.from;
  }

 private:
  blocks_test::Source& source_;
  const int64_t entry_, first_;
  std::deque<int64_t> expected_;
};

absl::Status read(Blocks& blocks, Source& source, int64_t entry, int64_t first, int64_t bytes, int64_t offset,
                  std::span<std::byte> dst) {
  Entry of(source, entry, first);
  return blocks.read(first, bytes, offset, dst, of);
}

bool right(int64_t entry, int64_t offset, std::span<const std::byte> got) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] != byte_at(entry, offset + static_cast<int64_t>(i))) return false;
  }
  return true;
}

TEST(Blocks, ReadsAreTheSourceWhateverIsKept) {
  Source source;
  Blocks blocks(/*most_bytes=*/1000, /*block_bytes=*/64);
  Random random(11);
  for (int i = 0; i < 5000; ++i) {
    const int64_t entry = random.between(0, 5), bytes = 100 + 301 * entry;
    const int64_t offset = random.between(0, bytes);
    std::vector<std::byte> got(static_cast<size_t>(random.between(0, bytes - offset)));
    ASSERT_TRUE(read(blocks, source, entry, 100 * entry, bytes, offset, got).ok());
    ASSERT_TRUE(right(entry, offset, got)) << entry << " " << offset;
  }
}

TEST(Blocks, WhatIsKeptIsFetchedOnceAlsoByManyAtOnce) {
  Source source;
  Blocks blocks(1 << 20, 64);
  std::vector<std::thread> readers;
  std::atomic<bool> all_right = true;
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back([&] {
      std::vector<std::byte> got(1000);
      if (!read(blocks, source, 0, 0, 1000, 0, got).ok() || !right(0, 0, got)) all_right = false;
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(all_right);
  EXPECT_EQ(source.fetches, 16);
}

TEST(Blocks, AnErrorIsNotKept) {
  Source source;
  Blocks blocks(1 << 20, 64);
  std::vector<std::byte> got(100);
  source.broken = true;
  EXPECT_TRUE(absl::IsUnavailable(read(blocks, source, 3, 300, 100, 0, got)));
  source.broken = false;
  EXPECT_TRUE(read(blocks, source, 3, 300, 100, 0, got).ok());
  EXPECT_TRUE(right(3, 0, got));
}

// Blocks of 64 bytes, numbered as their entries.
struct Ten {
  Source source;
  Blocks blocks{640, 64};
  void read(int64_t number, Blocks::From from) {
    source.from = from;
    std::vector<std::byte> got(64);
    ASSERT_TRUE(blocks_test::read(blocks, source, number, number, 64, 0, got).ok());
    ASSERT_TRUE(right(number, 0, got));
  }
  std::string here() {
    std::string text;
    for (int64_t number = 0; number < 30; ++number) {
      const Blocks::Found found = blocks.find(number);
      if (found.owner == nullptr) continue;
      EXPECT_TRUE(right(number, 0, found.bytes));
      text += fmt::format("{} ", number);
    }
    return text;
  }
};

// A read that began before goes on, and leaves nothing.
TEST(Blocks, NothingIsKeptAfterTheEnd) {
  Ten ten;
  ten.read(1, Blocks::From::kHolder);
  ten.blocks.clear();
  ten.read(2, Blocks::From::kHolder);
  EXPECT_EQ(ten.here(), "");
}

TEST(Blocks, WhatOtherReadersHaveGoesFirst) {
  Ten ten;
  for (int64_t number = 0; number < 10; ++number) ten.read(number, Blocks::From::kOtherReader);
  EXPECT_EQ(ten.here(), "0 1 2 3 4 5 6 7 8 9 ") << "as long as nobody needs the room";
  EXPECT_TRUE(ten.blocks.take_dropped().empty());
  for (int64_t number = 10; number < 15; ++number) ten.read(number, Blocks::From::kHolder);
  EXPECT_EQ(ten.here(), "5 6 7 8 9 10 11 12 13 14 ");
  EXPECT_EQ(ten.blocks.take_dropped(), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  ten.read(15, Blocks::From::kHolder);
  EXPECT_EQ(ten.here(), "5 6 7 8 9 11 12 13 14 15 ") << "but half of the memory";
  EXPECT_EQ(ten.blocks.take_dropped(), (std::vector<int64_t>{10}));
  EXPECT_TRUE(ten.blocks.take_dropped().empty());
}

TEST(Blocks, WhatSomebodyHasStaysWhateverGoes) {
  Ten ten;
  ten.read(3, Blocks::From::kHolder);
  const Blocks::Found found = ten.blocks.find(3);
  ten.blocks.clear();
  EXPECT_EQ(ten.here(), "");
  EXPECT_TRUE(right(3, 0, found.bytes));
  EXPECT_TRUE(ten.blocks.take_dropped().empty());
}

TEST(Blocks, WhatWasNotToBeHadIsDropped) {
  Ten ten;
  ten.source.broken = true;
  std::vector<std::byte> got(64);
  EXPECT_FALSE(read(ten.blocks, ten.source, 4, 4, 64, 0, got).ok());
  EXPECT_EQ(ten.blocks.take_dropped(), (std::vector<int64_t>{4})) << "it was to be here";
}

TEST(Blocks, WhatWasDroppedIsSaidUntilSomebodyHearsIt) {
  Ten ten;
  for (int64_t number = 0; number < 12; ++number) ten.read(2 * number, Blocks::From::kHolder);
  const std::vector<int64_t> dropped = ten.blocks.take_dropped();
  EXPECT_EQ(dropped, (std::vector<int64_t>{0, 2}));
  ten.read(0, Blocks::From::kHolder);
  ten.blocks.untake_dropped(dropped);
  EXPECT_EQ(ten.blocks.take_dropped(), (std::vector<int64_t>{2, 4})) << "0 is here again";
}

// The first blocks of entry 0, one after another.
struct InOrder {
  explicit InOrder(int64_t blocks, int64_t room) : count(blocks), kept(room * kBlock, kBlock) { source.ahead = count; }
  absl::Status read(int64_t number) {
    std::vector<std::byte> got(kBlock);
    const absl::Status read = blocks_test::read(kept, source, 0, 0, count * kBlock, number * kBlock, got);
    EXPECT_TRUE(!read.ok() || right(0, number * kBlock, got)) << number;
    return read;
  }
  const int64_t count;
  Source source;
  Blocks kept;
};

TEST(Blocks, WhoReadsInOrderAsksForManyAtOnce) {
  InOrder all(1000, 1000);
  for (int64_t number = 0; number < all.count; ++number) EXPECT_TRUE(all.read(number).ok());
  EXPECT_EQ(all.source.fetches, 1000) << "nothing twice";
  EXPECT_EQ(all.source.questions, 6 + 15) << "1, 2, 4, … 64";
  InOrder columns(1050, 2000);
  for (int64_t number = 0; number < columns.count; number += 7) EXPECT_TRUE(columns.read(number).ok());
  EXPECT_EQ(columns.source.fetches, 150) << "in another order";
  EXPECT_LE(columns.source.questions, 8);
  InOrder few(1000, 40);
  for (int64_t number = 0; number < few.count; ++number) EXPECT_TRUE(few.read(number).ok());
  EXPECT_EQ(few.source.fetches, 1000) << "no more than there is room for";
  EXPECT_LE(few.source.questions, 3 + 100);
}

TEST(Blocks, WhoReadsHereAndThereFetchesNoMore) {
  InOrder all(1000, 1000);
  for (int64_t number = 0; number < all.count; number += 2) EXPECT_TRUE(all.read(number).ok());
  EXPECT_EQ(all.source.fetches, 500);
  InOrder back(1000, 1000);
  for (int64_t number = back.count; number > 0;) EXPECT_TRUE(back.read(--number).ok());
  EXPECT_EQ(back.source.fetches, 1000);
}

// Of the window 3, 4, 5, 6 here.
TEST(Blocks, AnErrorAheadIsOfWhoReadsThatBlock) {
  InOrder all(16, 100);
  all.source.failing = {5};
  for (int64_t number = 0; number < 5; ++number) EXPECT_TRUE(all.read(number).ok()) << number;
  EXPECT_EQ(all.source.fetches, 6);
  EXPECT_EQ(all.kept.take_dropped(), (std::vector<int64_t>{5, 6}));
  EXPECT_TRUE(absl::IsUnavailable(all.read(5)));
  all.source.failing.clear();
  EXPECT_TRUE(all.read(5).ok());
  EXPECT_TRUE(all.read(6).ok());
}

TEST(Blocks, ManyReadersOfWindowsThatFail) {
  InOrder all(200, 100);
  all.source.failing = {7, 50, 120};
  std::vector<std::thread> readers;
  std::atomic<int> failed = 0;
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back([&] {
      Entry of(all.source, 0, 0);
      for (int64_t number = 0; number < all.count; ++number) failed += all.read(number).ok() ? 0 : 1;
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(failed, 8 * 3);
}

TEST(BoxesOfRange, AreEachElementOnceAndInOrder) {
  tensor::Box box = tensor::Box::whole(tensor::Shape({3, 4, 5}));
  box.lo = {1, 0, 2};
  const int64_t elements = box.volume();
  const auto strides = box.shape().strides();
  for (int64_t begin = 0; begin < elements; ++begin) {
    for (int64_t end = begin; end <= elements; ++end) {
      int64_t next = begin;
      int parts = 0;
      ASSERT_TRUE(for_each_box_of_range(box, begin, end, [&](const tensor::Box& part) {
                    int64_t at = 0;
                    for (size_t d = 0; d < 3; ++d) at += (part.lo[d] - box.lo[d]) * strides[d];
                    EXPECT_EQ(at, next) << part.str();
                    next += part.volume();
                    ++parts;
                    return absl::OkStatus();
                  }).ok());
      ASSERT_EQ(next, end);
      ASSERT_LE(parts, 5);
    }
  }
  int scalars = 0;
  ASSERT_TRUE(for_each_box_of_range(tensor::Box::whole(tensor::Shape({})), 0, 1, [&](const tensor::Box& part) {
                EXPECT_EQ(part.volume(), 1);
                ++scalars;
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(scalars, 1);
}

}  // namespace blocks_test
}  // namespace scalai::executor::live
