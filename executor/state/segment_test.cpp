#include "executor/state/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>

#include "executor/state/testing/support.h"

namespace scalai::executor::state {
namespace {
const int64_t kPage = Segment::page_bytes();

Segment segment_of(const SegmentOptions& options = {}) { return value_or_die(Segment::create(options)); }

// What the kernel says is committed.
int64_t committed(const Segment& segment) {
  struct stat info {};
  SCALAI_CHECK(::fstat(segment.address().fd, &info) == 0);
  return info.st_blocks * 512;
}
int64_t data_committed(const Segment& segment) { return committed(segment) - kPage; }  // without the header

TEST(Segment, ReservesSpaceButNoMemory) {
  const Segment segment = segment_of();
  EXPECT_EQ(committed(segment), kPage);
  EXPECT_EQ(segment.bytes_in_use(), 0);
  EXPECT_EQ(segment.address().pid, ::getpid());
}

TEST(Segment, MemoryComesAndGoesWithBuffers) {
  Segment segment = segment_of();
  const uint64_t a = value_or_die(segment.allocate(10 * kPage - 5));
  const uint64_t b = value_or_die(segment.allocate(1));
  EXPECT_EQ(segment.bytes_in_use(), 11 * kPage);
  EXPECT_EQ(data_committed(segment), 11 * kPage);
  std::fill_n(segment.data(a), 10 * kPage, std::byte{1});
  segment.free(a);
  EXPECT_EQ(data_committed(segment), kPage);
  EXPECT_EQ(segment.bytes_in_use(), kPage);
  EXPECT_EQ(segment.bytes_peak(), 11 * kPage);
  const uint64_t again = value_or_die(segment.allocate(10 * kPage));
  EXPECT_EQ(std::count(segment.data(again), segment.data(again) + 10 * kPage, std::byte{0}), 10 * kPage);
  segment.free(again);
  segment.free(b);
  EXPECT_EQ(data_committed(segment), 0);
}

TEST(Segment, WritingWhatIsAllocatedDoesNotFault) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer's shadow of these pages faults";
#endif
  const auto faults = [] {
    rusage usage{};
    SCALAI_CHECK(::getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
  };
  void* probe = ::mmap(nullptr, static_cast<size_t>(kPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(probe, MAP_FAILED);
  const bool can_populate = ::madvise(probe, static_cast<size_t>(kPage), MADV_POPULATE_WRITE) == 0;
  ::munmap(probe, static_cast<size_t>(kPage));
  if (!can_populate) GTEST_SKIP() << "this kernel does not enter pages into page tables ahead (Linux 5.14)";
  Segment segment = segment_of();
  constexpr int64_t kPages = 4096;
  const uint64_t offset = value_or_die(segment.allocate(kPages * kPage));
  const auto before = faults();
  for (int64_t page = 0; page < kPages; ++page) segment.data(offset)[page * kPage] = std::byte{1};
  EXPECT_LT(faults() - before, kPages / 8);
}

TEST(Segment, GivesBackWholePagesOfAPart) {
  Segment segment = segment_of();
  const uint64_t a = value_or_die(segment.allocate(10 * kPage));
  const uint64_t b = value_or_die(segment.allocate(kPage));
  std::fill_n(segment.data(a), 10 * kPage, std::byte{1});
  EXPECT_EQ(segment.free_range(a + 1, kPage), 0);
  EXPECT_EQ(segment.free_range(a + 1, 2 * kPage), kPage);  // page 1
  EXPECT_EQ(segment.free_range(a + static_cast<uint64_t>(kPage), kPage), 0);
  EXPECT_EQ(segment.free_range(a + static_cast<uint64_t>(5 * kPage), 2 * kPage), 2 * kPage);  // 5, 6
  EXPECT_EQ(data_committed(segment), 8 * kPage);
  EXPECT_EQ(segment.free_range(a, 10 * kPage), 7 * kPage);
  EXPECT_EQ(data_committed(segment), kPage);
  EXPECT_EQ(segment.bytes_in_use(), kPage);
  segment.free(a);
  EXPECT_EQ(segment.bytes_in_use(), kPage);
  segment.free(b);
  EXPECT_EQ(segment.bytes_in_use(), 0);
}

// Allocations never overlap, keep their bytes, are zero at first, and the count is the kernel's, whatever the order.
TEST(Segment, RandomUseAgainstAModel) {
  const uint64_t seed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  Segment segment = segment_of({.capacity = 400 * kPage});
  struct Block {
    int64_t pages;
    std::vector<bool> returned;
    std::byte mark;
  };
  std::map<uint64_t, Block> blocks;
  for (int i = 0; i < 3000; ++i) {
    const int64_t what = random.below(3);
    if (what == 0 || blocks.empty()) {
      const int64_t pages = random.between(1, 40);
      const absl::StatusOr<uint64_t> offset = segment.allocate(pages * kPage - random.below(kPage));
      if (!offset.ok()) {
        ASSERT_EQ(offset.status().code(), absl::StatusCode::kResourceExhausted);
        continue;
      }
      std::byte* data = segment.data(*offset);
      ASSERT_EQ(std::count(data, data + pages * kPage, std::byte{0}), pages * kPage);
      const auto mark = static_cast<std::byte>(random.between(1, 255));
      std::fill_n(data, pages * kPage, mark);
      ASSERT_TRUE(
          blocks.try_emplace(*offset, Block{pages, std::vector<bool>(static_cast<size_t>(pages)), mark}).second);
    } else {
      auto at = blocks.begin();
      std::advance(at, random.below(static_cast<int64_t>(blocks.size())));
      auto& [offset, block] = *at;
      for (int64_t page = 0; page < block.pages; ++page) {
        const std::byte expected = block.returned[static_cast<size_t>(page)] ? std::byte{0} : block.mark;
        if (expected == block.mark) {
          ASSERT_EQ(segment.data(offset)[page * kPage + random.below(kPage)], expected);
        }
      }
      if (what == 1) {
        segment.free(offset);
        blocks.erase(at);
      } else {
        const int64_t first = random.below(block.pages);
        const int64_t count = random.between(1, block.pages - first);
        segment.free_range(offset + static_cast<uint64_t>(first * kPage), count * kPage);
        for (int64_t page = first; page < first + count; ++page) block.returned[static_cast<size_t>(page)] = true;
      }
    }
    int64_t pages = 0;
    for (const auto& [offset, block] : blocks) pages += std::count(block.returned.begin(), block.returned.end(), false);
    ASSERT_EQ(segment.bytes_in_use(), pages * kPage) << "step " << i;
    ASSERT_EQ(data_committed(segment), pages * kPage) << "step " << i;
  }
}

TEST(Segment, SaysWhenThePlaceIsFull) {
  Segment segment = segment_of({.limit = 10 * kPage});
  const uint64_t a = value_or_die(segment.allocate(8 * kPage));
  const absl::StatusOr<uint64_t> more = segment.allocate(3 * kPage);
  EXPECT_EQ(more.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(message_of(more.status()), "12.3 kB more do not fit: 32.8 kB of this place's 41.0 kB are used");
  EXPECT_EQ(data_committed(segment), 8 * kPage);
  segment.free(a);
  EXPECT_TRUE(segment.allocate(10 * kPage).ok());
}

TEST(Segment, SaysWhenTheSpaceIsFull) {
  Segment segment = segment_of({.capacity = 10 * kPage});
  EXPECT_TRUE(segment.allocate(9 * kPage).ok());
  EXPECT_EQ(segment.allocate(kPage).status().code(), absl::StatusCode::kResourceExhausted);
}

// More than the machine has is an error before anything is killed, and nothing stays committed.
TEST(Segment, SaysWhenTheMachineIsFull) {
  Segment segment = segment_of({.leave_free = int64_t{1} << 60});
  EXPECT_TRUE(segment.allocate(kPage).ok());
  const absl::Status status = segment.allocate(int64_t{65} << 20).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(message_of(status).find("available"), std::string::npos) << message_of(status);
  EXPECT_EQ(data_committed(segment), kPage);
  EXPECT_EQ(segment.bytes_in_use(), kPage);
}

TEST(Segment, SaysWhenFilesMayNotBeThatLarge) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1 << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = Segment::create({}).status();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(message_of(status).find("ulimit -f"), std::string::npos) << message_of(status);
}

TEST(Segment, ItsSizeIsSealed) {
  const Segment segment = segment_of();
  EXPECT_EQ(::ftruncate(segment.address().fd, kPage), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(Segment, EpochIsOddWhileRewriting) {
  Segment segment = segment_of();
  const uint64_t before = segment.epoch();
  EXPECT_EQ(before % 2, 0u);
  segment.begin_rewrite();
  segment.begin_rewrite();
  EXPECT_EQ(segment.epoch() % 2, 1u);
  segment.end_rewrite();
  EXPECT_EQ(segment.epoch() % 2, 1u);
  segment.end_rewrite();
  EXPECT_EQ(segment.epoch(), before + 2);
  segment.raise_epoch();
  EXPECT_EQ(segment.epoch(), before + 4);
}

TEST(Segment, MovesAndLeavesNothingBehind) {
  Segment a = segment_of({.name = "moves"});
  const int fd = a.address().fd;
  {
    Segment b = std::move(a);
    EXPECT_TRUE(b.allocate(kPage).ok());
    EXPECT_EQ(b.address().fd, fd);
  }
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
}

}  // namespace
}  // namespace scalai::executor::state
