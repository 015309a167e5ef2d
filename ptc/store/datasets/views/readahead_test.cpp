#include "ptc/store/datasets/views/readahead.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::datasets {
namespace {

std::byte byte_at(int64_t offset) { return static_cast<std::byte>((offset * 2654435761LL) >> 13); }

// Answers slowly or only when allowed, and remembers what it was asked for.
class FakeSource final : public ByteSource {
 public:
  explicit FakeSource(int64_t size) : size_(size) {}

  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
    const int64_t end = offset + static_cast<int64_t>(dst.size());
    {
      std::unique_lock lock(mutex_);
      asked_.push_back({offset, end});
      changed_.notify_all();
      changed_.wait(lock, [&] { return !closed_; });
      if (offset <= bad_ && bad_ < end && throws_) throw std::bad_alloc();
      if (offset <= bad_ && bad_ < end) return failed(fmt::format("no byte {}", bad_));
    }
    if (slow_) std::this_thread::sleep_for(std::chrono::microseconds(300));
    for (size_t i = 0; i < dst.size(); ++i) dst[i] = byte_at(offset + static_cast<int64_t>(i));
    return absl::OkStatus();
  }

  void close_gate() {
    set([&] { closed_ = true; });
  }
  void open_gate() {
    set([&] { closed_ = false; });
  }
  void fail_at(int64_t offset) {
    set([&] { bad_ = offset; });
  }
  void be_slow() { slow_ = true; }
  void throw_at(int64_t offset) {
    set([&] {
      bad_ = offset;
      throws_ = true;
    });
  }
  std::vector<std::pair<int64_t, int64_t>> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  void wait_for_asked(size_t count) const {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return asked_.size() >= count; }));
  }
  // How often each byte was read.
  std::vector<int> counts() const {
    std::vector<int> counts(static_cast<size_t>(size_));
    for (const auto& [begin, end] : asked()) {
      for (int64_t i = begin; i < end; ++i) ++counts[static_cast<size_t>(i)];
    }
    return counts;
  }

 private:
  template <typename Change>
  void set(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }

  std::string name_ = "fake";
  int64_t size_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::vector<std::pair<int64_t, int64_t>> asked_;
  bool closed_ = false;
  bool slow_ = false;
  bool throws_ = false;
  int64_t bad_ = -1;
};

constexpr ReadAheadOptions kSmall = {
    .threads = 2, .memory_bytes = 1 << 20, .first_window = 64, .largest_window = 4096, .largest_fetch = 512};

// Empty when the bytes are right; the error's message otherwise.
std::string problem_of_read(const ByteSource& source, int64_t offset, int64_t bytes) {
  std::vector<std::byte> dst(static_cast<size_t>(bytes), std::byte{0x5a});
  const absl::Status status = source.read(offset, dst);
  if (!status.ok()) return message_of(status);
  for (size_t i = 0; i < dst.size(); ++i) {
    if (dst[i] != byte_at(offset + static_cast<int64_t>(i))) return fmt::format("wrong byte {}", offset + int64_t(i));
  }
  return "";
}

void wait_until(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(ReadAhead, SequentialReadsTakeEveryByteFromTheSourceOnce) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto fake = std::make_shared<FakeSource>(random.between(1, 60000));
    const ReadAhead ahead(kSmall);
    const ByteSourcePtr source = ahead.wrap(fake);
    EXPECT_EQ(source->size(), fake->size());
    EXPECT_EQ(source->name(), "fake");
    for (int64_t at = 0; at < fake->size();) {
      const int64_t bytes = std::min(random.between(0, 300), fake->size() - at);
      ASSERT_EQ(problem_of_read(*source, at, bytes), "");
      at += bytes;
    }
    EXPECT_THAT(fake->counts(), testing::Each(1));
    // Handed on, so let go: at the latest when the thread that fetched it goes on.
    wait_until([&] { return ahead.held_bytes() == 0; });
  }
}

// As the kernel may ask.
TEST(ReadAhead, ReadsALittleOutOfOrderTakeEveryByteOnce) {
  const auto fake = std::make_shared<FakeSource>(40000);
  ReadAheadOptions options = kSmall;
  options.first_window = 1024;
  const ReadAhead ahead(options);
  const ByteSourcePtr source = ahead.wrap(fake);
  ASSERT_EQ(problem_of_read(*source, 0, 200), "");
  for (int64_t at = 200; at + 200 <= 40000; at += 200) {
    ASSERT_EQ(problem_of_read(*source, at + 100, 100), "");
    ASSERT_EQ(problem_of_read(*source, at, 100), "");
  }
  EXPECT_THAT(fake->counts(), testing::Each(1));
}

TEST(ReadAhead, WhatIsHeldIsNotReadAgainBehindAGap) {
  const auto fake = std::make_shared<FakeSource>(10000);
  const ReadAhead ahead(kSmall);
  const ByteSourcePtr source = ahead.wrap(fake);
  ASSERT_EQ(problem_of_read(*source, 0, 10), "");
  ASSERT_EQ(problem_of_read(*source, 5, 15), "");
  fake->wait_for_asked(4);
  EXPECT_THAT(fake->asked(),
              testing::UnorderedElementsAre(std::pair(0, 10), std::pair(10, 42), std::pair(42, 74), std::pair(5, 10)));
}

TEST(ReadAhead, TheWindowGrowsToTheLargestFetch) {
  const auto fake = std::make_shared<FakeSource>(100000);
  const ReadAhead ahead(kSmall);
  const ByteSourcePtr source = ahead.wrap(fake);
  for (int64_t at = 0; at < fake->size(); at += 50) ASSERT_EQ(problem_of_read(*source, at, 50), "");
  int64_t largest = 0;
  for (const auto& [begin, end] : fake->asked()) largest = std::max(largest, end - begin);
  EXPECT_EQ(largest, kSmall.largest_fetch);
  EXPECT_LT(fake->asked().size(), 100000u / 512 + 40);  // a read of 50 bytes is a fetch only at the beginning
}

TEST(ReadAhead, WhatComesNextIsThereBeforeItIsAskedFor) {
  const auto fake = std::make_shared<FakeSource>(10000);
  const ReadAhead ahead(kSmall);
  const ByteSourcePtr source = ahead.wrap(fake);
  ASSERT_EQ(problem_of_read(*source, 0, 10), "");
  fake->wait_for_asked(3);  // a window of 64 bytes in two halves
  EXPECT_EQ(problem_of_read(*source, 10, 20), "");
  EXPECT_THAT(fake->asked(), testing::UnorderedElementsAre(std::pair(0, 10), std::pair(10, 42), std::pair(42, 74)));
}

TEST(ReadAhead, JumpsReadNothingButWhatWasAskedFor) {
  Random random(7);
  const auto fake = std::make_shared<FakeSource>(1 << 20);
  const ReadAhead ahead(kSmall);
  const ByteSourcePtr source = ahead.wrap(fake);
  std::vector<std::pair<int64_t, int64_t>> wanted;
  for (int i = 0; i < 100; ++i) {
    const int64_t at = random.between(1, (1 << 20) - 100);
    wanted.push_back({at, at + 100});
    ASSERT_EQ(problem_of_read(*source, at, 100), "");
  }
  EXPECT_EQ(fake->asked(), wanted);
  EXPECT_EQ(ahead.held_bytes(), 0);
}

TEST(ReadAhead, AJumpDropsWhatWasHeldAndTheWindowStartsAgain) {
  for (const int64_t to : {900000, 5000}) {  // forward and back
    const auto fake = std::make_shared<FakeSource>(1 << 20);
    const ReadAhead ahead(kSmall);
    const ByteSourcePtr source = ahead.wrap(fake);
    for (int64_t at = 0; at < 20000; at += 100) ASSERT_EQ(problem_of_read(*source, at, 100), "");
    EXPECT_GT(ahead.held_bytes(), 1000);
    ASSERT_EQ(problem_of_read(*source, to, 100), "");
    wait_until([&] { return ahead.held_bytes() == 0; });  // a fetch may still have been running
    ASSERT_EQ(problem_of_read(*source, to + 100, 100), "");
    EXPECT_EQ(ahead.held_bytes(), kSmall.first_window);
  }
}

TEST(ReadAhead, MemoryStaysUnderTheBound) {
  const ReadAheadOptions options = {
      .threads = 3, .memory_bytes = 3000, .first_window = 64, .largest_window = 4096, .largest_fetch = 512};
  const ReadAhead ahead(options);
  std::vector<std::shared_ptr<FakeSource>> fakes;
  std::vector<ByteSourcePtr> sources;
  for (int i = 0; i < 8; ++i) {
    fakes.push_back(std::make_shared<FakeSource>(20000));
    sources.push_back(ahead.wrap(fakes.back()));
  }
  int64_t most = 0;
  for (int64_t at = 0; at < 20000; at += 100) {
    for (const ByteSourcePtr& source : sources) {
      ASSERT_EQ(problem_of_read(*source, at, 100), "");
      most = std::max(most, ahead.held_bytes());
    }
  }
  EXPECT_LE(most, options.memory_bytes);
  EXPECT_GT(most, options.memory_bytes / 2);
  for (const auto& fake : fakes) EXPECT_THAT(fake->counts(), testing::Each(1));
  sources.clear();
  wait_until([&] { return ahead.held_bytes() == 0; });
}

TEST(ReadAhead, OneReaderHoldsAtMostTwoWindowsAndAFetch) {
  const ReadAhead ahead(kSmall);
  const auto fake = std::make_shared<FakeSource>(200000);
  const ByteSourcePtr source = ahead.wrap(fake);
  // Leaves out every other stretch, so nothing is ever taken whole.
  for (int64_t at = 0; at + 40 < fake->size(); at += 80) {
    ASSERT_EQ(problem_of_read(*source, at, 40), "");
    // A thread that has just fetched holds its range a moment longer.
    wait_until([&] { return ahead.held_bytes() <= 2 * kSmall.largest_window + kSmall.largest_fetch; });
    if (HasFailure()) return;
  }
}

TEST(ReadAhead, AnErrorReachesTheReadThatWantsItsBytesAndNoOther) {
  const auto fake = std::make_shared<FakeSource>(10000);
  fake->fail_at(3000);
  const ReadAhead ahead(kSmall);
  const ByteSourcePtr source = ahead.wrap(fake);
  int64_t at = 0;
  std::string problem;
  for (; at < 10000; at += 50) {
    problem = problem_of_read(*source, at, 50);
    if (!problem.empty()) break;
  }
  EXPECT_EQ(problem, "no byte 3000");
  EXPECT_LE(at, 3000);
  EXPECT_GT(at, 3000 - kSmall.largest_fetch);
  fake->fail_at(-1);
  for (; at < 10000; at += 50) ASSERT_EQ(problem_of_read(*source, at, 50), "");
}

TEST(ReadAhead, WhatASourceThrowsIsAnError) {
  const auto fake = std::make_shared<FakeSource>(10000);
  fake->throw_at(60);
  const ReadAhead ahead(kSmall);
  const ByteSourcePtr source = ahead.wrap(fake);
  ASSERT_EQ(problem_of_read(*source, 0, 10), "");
  EXPECT_THAT(problem_of_read(*source, 10, 90), ::testing::HasSubstr("fake: reading ahead: std::bad_alloc"));
  fake->fail_at(-1);
  EXPECT_EQ(problem_of_read(*source, 45, 20), "");
}

TEST(ReadAhead, AfterAnErrorTheSourceIsAskedAgain) {
  const auto fake = std::make_shared<FakeSource>(10000);
  fake->fail_at(50);
  const ReadAhead ahead(kSmall);
  const ByteSourcePtr source = ahead.wrap(fake);
  ASSERT_EQ(problem_of_read(*source, 0, 10), "");
  ASSERT_EQ(problem_of_read(*source, 10, 35), "no byte 50");  // of its last bytes' fetch, [42, 74)
  fake->fail_at(-1);
  EXPECT_EQ(problem_of_read(*source, 45, 20), "");
}

TEST(ReadAhead, LettingGoDropsWhatIsQueued) {
  const ReadAheadOptions options = {
      .threads = 1, .memory_bytes = 1 << 20, .first_window = 1024, .largest_window = 4096, .largest_fetch = 128};
  const auto fake = std::make_shared<FakeSource>(100000);
  const ReadAhead ahead(options);
  ByteSourcePtr source = ahead.wrap(fake);
  fake->close_gate();
  ASSERT_EQ(problem_of_read(*source, 0, 0), "");  // queues eight fetches
  fake->wait_for_asked(1);                        // one is running, the others wait for the thread
  EXPECT_EQ(ahead.held_bytes(), 1024);
  source.reset();
  EXPECT_EQ(ahead.held_bytes(), 128);
  fake->open_gate();
  wait_until([&] { return ahead.held_bytes() == 0; });
  EXPECT_EQ(fake->asked().size(), 1u);
}

TEST(ReadAhead, ASourceOutlivesItsReadAhead) {
  const auto fake = std::make_shared<FakeSource>(50000);
  auto ahead = std::make_unique<ReadAhead>(kSmall);
  const ByteSourcePtr source = ahead->wrap(fake);
  for (int64_t at = 0; at < 10000; at += 100) ASSERT_EQ(problem_of_read(*source, at, 100), "");
  ahead.reset();
  for (int64_t at = 10000; at < 50000; at += 100) ASSERT_EQ(problem_of_read(*source, at, 100), "");
  EXPECT_THAT(fake->counts(), testing::Each(1));
  EXPECT_EQ(fake->asked().back(), std::pair(int64_t{49900}, int64_t{50000}));  // no fetch of its own
}

// As the kernel does for a reader: several threads ask for neighbouring ranges, in nearly rising order.
TEST(ReadAhead, ManyThreadsOnOneSourceGetTheRightBytes) {
  const auto fake = std::make_shared<FakeSource>(1 << 20);
  fake->be_slow();
  const ReadAhead ahead({.threads = 3,
                         .memory_bytes = 1 << 20,
                         .first_window = 8 << 10,
                         .largest_window = 128 << 10,
                         .largest_fetch = 16 << 10});
  const ByteSourcePtr source = ahead.wrap(fake);
  std::atomic<int64_t> next = 0;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      while (true) {
        const int64_t at = next.fetch_add(1000);
        if (at >= fake->size()) return;
        if (!problem_of_read(*source, at, std::min<int64_t>(1000, fake->size() - at)).empty()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LT(fake->asked().size(), 500u);  // of 1,049 reads
}

}  // namespace
}  // namespace scalai::datasets
