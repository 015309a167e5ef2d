#include "executor/live/blocks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::executor {
namespace blocks_test {

std::byte byte_at(int64_t entry, int64_t at) {
  return static_cast<std::byte>((entry * 131 + at * 7 + at / 251) & 0xff);
}

struct Source {
  std::atomic<int> fetches = 0;
  std::atomic<bool> broken = false;
  Blocks::From from = Blocks::From::kHolder;
  Blocks::Fetch of(int64_t entry) {
    return [this, entry](int64_t begin, std::span<std::byte> dst) -> absl::StatusOr<Blocks::From> {
      ++fetches;
      if (broken) return absl::UnavailableError("broken");
      for (size_t i = 0; i < dst.size(); ++i) dst[i] = byte_at(entry, begin + static_cast<int64_t>(i));
      return from;
    };
  }
};

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
    ASSERT_TRUE(blocks.read(100 * entry, bytes, offset, got, source.of(entry)).ok());
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
      if (!blocks.read(0, 1000, 0, got, source.of(0)).ok() || !right(0, 0, got)) all_right = false;
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
  EXPECT_TRUE(absl::IsUnavailable(blocks.read(300, 100, 0, got, source.of(3))));
  source.broken = false;
  EXPECT_TRUE(blocks.read(300, 100, 0, got, source.of(3)).ok());
  EXPECT_TRUE(right(3, 0, got));
}

// Blocks of 64 bytes, numbered as their entries.
struct Ten {
  Source source;
  Blocks blocks{640, 64};
  void read(int64_t number, Blocks::From from) {
    source.from = from;
    std::vector<std::byte> got(64);
    ASSERT_TRUE(blocks.read(number, 64, 0, got, source.of(number)).ok());
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
  EXPECT_FALSE(ten.blocks.read(4, 64, 0, got, ten.source.of(4)).ok());
  EXPECT_EQ(ten.blocks.take_dropped(), (std::vector<int64_t>{4})) << "it was to be here";
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
}  // namespace scalai::executor
