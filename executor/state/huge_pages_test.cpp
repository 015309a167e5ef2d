#include "executor/state/huge_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "executor/state/peer_segment.h"
#include "executor/state/segment.h"
#include "executor/state/testing/support.h"

namespace scalai::executor::state {
namespace huge_pages_test {

using ::testing::HasSubstr;

class HugePagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "huge." + std::to_string(::getpid());
    std::filesystem::create_directories(root_ + kFolder);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  HugePageSupport with(const std::string& setting) const {
    std::ofstream(root_ + kFolder + "/shmem_enabled") << setting << "\n";
    std::ofstream(root_ + kFolder + "/hpage_pmd_size") << "2097152\n";
    return huge_page_support(root_);
  }
  static constexpr const char* kFolder = "/sys/kernel/mm/transparent_hugepage";
  std::string root_;
};

TEST_F(HugePagesTest, TheSettingDecides) {
  EXPECT_EQ(huge_page_support(root_).page_bytes, 0);
  EXPECT_THAT(no_huge_pages(huge_page_support(root_)), HasSubstr("shmem_enabled is not there"));
  const HugePageSupport never = with("always within_size advise [never] deny force");
  EXPECT_EQ(never.page_bytes, 0);
  EXPECT_THAT(no_huge_pages(never), HasSubstr("shmem_enabled is never\nhint: echo advise > /sys/"));
  const HugePageSupport advise = with("always within_size [advise] never deny force");
  EXPECT_EQ(advise.page_bytes, 2 << 20);
  EXPECT_FALSE(advise.unasked);
  EXPECT_TRUE(with("[always] within_size advise never deny force").unasked);
  EXPECT_TRUE(with("always [within_size] advise never deny force").unasked);
  EXPECT_EQ(with("always within_size advise never [deny] force").page_bytes, 0);
}

TEST(MapShared, LiesAtAMultiple) {
  const int64_t page = Segment::page_bytes();
  const FileDescriptor file(::memfd_create("huge_pages_test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 3 * page), 0);
  for (const int64_t grain : {page, int64_t{2} << 20, int64_t{64} << 20}) {
    void* const base = map_shared(file.get(), static_cast<size_t>(3 * page), PROT_READ | PROT_WRITE, grain);
    ASSERT_NE(base, MAP_FAILED);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % static_cast<uintptr_t>(grain), 0U);
    static_cast<char*>(base)[3 * page - 1] = 'x';
    EXPECT_EQ(::munmap(base, static_cast<size_t>(3 * page)), 0);
  }
  EXPECT_EQ(map_shared(-1, static_cast<size_t>(page), PROT_READ, page), MAP_FAILED);
  EXPECT_EQ(errno, EBADF);
}

TEST(HugeRange, LeavesTheProcessMostOfItsMappings) {
  std::vector<std::shared_ptr<const void>> held;
  std::shared_ptr<const void> one = huge_range();
  while (one != nullptr) held.push_back(std::exchange(one, huge_range()));
  int64_t mappings = 65530;
  std::ifstream("/proc/sys/vm/max_map_count") >> mappings;
  EXPECT_EQ(std::ssize(held), mappings / 16);
  EXPECT_EQ(huge_range(), nullptr);
  // Then pages are small, and nothing fails.
  Segment segment = value_or_die(Segment::create({}));
  const auto offset = segment.allocate(int64_t{4} << 20);
  ASSERT_TRUE(offset.ok()) << offset.status();
  EXPECT_EQ(segment.bytes_on_huge_pages(), 0);
  held.pop_back();
  EXPECT_NE(huge_range(), nullptr);
}

int64_t committed_bytes(const Segment& segment) {
  struct stat info {};
  SCALAI_CHECK(::fstat(segment.address().fd, &info) == 0);
  return info.st_blocks * 512 - Segment::page_bytes();
}

TEST(HugeSegment, RequiredOnesAreThereOrAnError) {
  const HugePageSupport support = huge_page_support();
  auto segment = Segment::create({.huge_pages = HugePages::kRequire});
  if (support.page_bytes == 0) {
    EXPECT_EQ(segment.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(segment.status().message()), HasSubstr("shmem_enabled"));
    GTEST_SKIP() << "the kernel gives shared memory no huge pages";
  }
  const auto offset = segment->allocate(3 * support.page_bytes + 5);
  ASSERT_TRUE(offset.ok()) << offset.status();
  EXPECT_EQ(segment->bytes_on_huge_pages(), 3 * support.page_bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(segment->data(*offset)) % static_cast<uintptr_t>(support.page_bytes), 0U);
  EXPECT_TRUE(segment->allocate(1).ok()) << "smaller than a huge page: small ones will do";
}

TEST(HugeSegment, WithoutThemPagesAreSmall) {
  Segment segment = value_or_die(Segment::create({.huge_pages = HugePages::kOff}));
  value_or_die(segment.allocate(int64_t{9} << 20));
  EXPECT_EQ(segment.bytes_on_huge_pages(), 0);
}

// Memory is counted to the small page, whatever the order: no huge page stays for a byte of it.
TEST(HugeSegment, IsCountedInSmallPages) {
  const HugePageSupport support = huge_page_support();
  if (support.page_bytes == 0) GTEST_SKIP() << "the kernel gives shared memory no huge pages";
  const uint64_t seed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const int64_t page = Segment::page_bytes(), huge = support.page_bytes;
  Segment segment = value_or_die(Segment::create({.capacity = int64_t{1} << 30, .leave_free = 0}));
  std::map<uint64_t, int64_t> held;
  for (int i = 0; i < 300; ++i) {
    if (held.size() < 12 && random.below(2) == 0) {
      const int64_t bytes = random.below(3) == 0 ? random.between(1, 50 * page) : random.between(1, 4 * huge);
      const uint64_t offset = value_or_die(segment.allocate(bytes));
      std::byte* const data = segment.data(offset);
      ASSERT_EQ(std::count(data, data + bytes, std::byte{0}), bytes);
      std::fill_n(data, bytes, std::byte{7});
      held[offset] = bytes;
    } else if (!held.empty()) {
      const auto one = std::next(held.begin(), random.below(std::ssize(held)));
      if (random.below(2) == 0) {
        const int64_t from = random.below(one->second);
        segment.free_range(one->first + static_cast<uint64_t>(from), random.between(0, one->second - from));
      } else {
        segment.free(one->first);
        held.erase(one);
      }
    }
    ASSERT_EQ(committed_bytes(segment), segment.bytes_in_use()) << i;
  }
}

// Other processes map it as it is.
TEST(HugeSegment, AReaderHasItsBytes) {
  Segment segment = value_or_die(Segment::create({}));
  const int64_t bytes = int64_t{5} << 20;
  const uint64_t offset = value_or_die(segment.allocate(bytes));
  std::fill_n(segment.data(offset), bytes, std::byte{3});
  const auto peer = PeerSegment::open(segment.address());
  ASSERT_TRUE(peer.ok()) << peer.status();
  const std::byte* const seen = peer->base() + offset;
  EXPECT_EQ(std::count(seen, seen + bytes, std::byte{3}), bytes);
}

}  // namespace huge_pages_test
}  // namespace scalai::executor::state
