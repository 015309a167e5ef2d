#include "vfs/remote/block_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>

#include "ptc/base/status.h"
#include "vfs/remote/testing/test_server.h"

namespace scalai::vfs {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlock = 1000;
constexpr int64_t kStored = kBlock + 32;  // with its header
const std::string kFile(32, 'a');

class BlockCacheTest : public RemoteTest {
 protected:
  std::unique_ptr<BlockCache> open(int64_t limit) {
    absl::StatusOr<std::unique_ptr<BlockCache>> cache = BlockCache::open(folder_, limit, kBlock);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return std::move(cache).value();
  }
  static std::string text_of(int64_t index) { return random_bytes(kBlock, static_cast<uint64_t>(index) + 1); }
  static void put(BlockCache& cache, int64_t index) {
    cache.put({kFile, index}, std::as_bytes(std::span<const char>(text_of(index))));
  }
  static bool has(BlockCache& cache, int64_t index) {
    const std::optional<std::vector<std::byte>> found = cache.get({kFile, index}, kBlock);
    if (!found) return false;
    EXPECT_EQ(std::memcmp(found->data(), text_of(index).data(), kBlock), 0) << index;
    return true;
  }
  std::vector<fs::path> block_files() const {
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file() && entry.path().filename().string().rfind(kFile, 0) == 0)
        files.push_back(entry.path());
    }
    return files;
  }
  // While nobody writes, so that no file is seen under two names.
  int64_t locked_bytes_on_disk() const {
    const int fd = ::open((folder_ + "/scalai-blocks-1/lock").c_str(), O_RDWR | O_CLOEXEC);
    ::flock(fd, LOCK_EX);
    const int64_t bytes = bytes_on_disk(folder_);
    ::close(fd);
    return bytes;
  }
  // Used so many seconds ago: times of modification only go on every few milliseconds.
  void age(int64_t index, int64_t seconds) const {
    for (const fs::path& path : block_files()) {
      if (path.extension() != fmt::format(".{}", index)) continue;
      fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
    }
  }
};

TEST_F(BlockCacheTest, GivesBackWhatWasStoredAlsoToTheNextProcess) {
  {
    const auto cache = open(10 * kStored);
    EXPECT_FALSE(has(*cache, 0));
    put(*cache, 0);
    EXPECT_TRUE(has(*cache, 0));
  }
  const auto cache = open(10 * kStored);
  EXPECT_TRUE(has(*cache, 0));
  EXPECT_FALSE(has(*cache, 1));
  EXPECT_FALSE(cache->get({std::string(32, 'b'), 0}, kBlock));
  EXPECT_EQ(cache->counts().hits, 1);
}

TEST_F(BlockCacheTest, StaysBelowItsBoundAndKeepsWhatWasUsedLast) {
  const auto cache = open(10 * kStored);
  for (int64_t i = 0; i < 10; ++i) {
    put(*cache, i);
    age(i, 100 - i);
  }
  EXPECT_EQ(bytes_on_disk(folder_), 10 * kStored);
  EXPECT_TRUE(has(*cache, 0));  // used now
  put(*cache, 10);
  EXPECT_LE(bytes_on_disk(folder_), 10 * kStored);
  EXPECT_TRUE(has(*cache, 0));
  EXPECT_FALSE(has(*cache, 1));
  EXPECT_TRUE(has(*cache, 10));
  for (int64_t i = 11; i < 200; ++i) {
    put(*cache, i);
    ASSERT_LE(bytes_on_disk(folder_), 10 * kStored);
    ASSERT_TRUE(has(*cache, i));
  }
  EXPECT_GE(bytes_on_disk(folder_), 8 * kStored) << "evicts more than it has to";
}

TEST_F(BlockCacheTest, ALowerBoundHoldsFromTheOpening) {
  {
    const auto cache = open(10 * kStored);
    for (int64_t i = 0; i < 10; ++i) put(*cache, i);
  }
  const auto cache = open(3 * kStored);
  EXPECT_EQ(bytes_on_disk(folder_), 3 * kStored);
}

TEST_F(BlockCacheTest, ADamagedBlockIsFoundAndRemoved) {
  const auto cache = open(10 * kStored);
  for (const int64_t at : {0, 8, 20, 32, 32 + 999}) {  // header and data, first and last byte
    SCOPED_TRACE(at);
    put(*cache, 0);
    ASSERT_EQ(block_files().size(), 1u);
    std::fstream file(block_files()[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char flipped = static_cast<char>(file.get() ^ 4);
    file.seekp(at);
    file.put(flipped);
    file.close();
    EXPECT_FALSE(has(*cache, 0));
    EXPECT_TRUE(block_files().empty());
  }
  put(*cache, 0);
  fs::resize_file(block_files()[0], kStored - 1);
  EXPECT_FALSE(has(*cache, 0));
  EXPECT_EQ(cache->counts().damaged, 6);
}

TEST_F(BlockCacheTest, ABlockUnderAnotherNameIsDamaged) {
  const auto cache = open(10 * kStored);
  put(*cache, 0);
  const fs::path one = block_files()[0];
  put(*cache, 1);
  for (const fs::path& path : block_files()) {
    if (path != one) fs::copy_file(one, path, fs::copy_options::overwrite_existing);
  }
  EXPECT_TRUE(has(*cache, 0));
  EXPECT_FALSE(cache->get({kFile, 1}, kBlock));
  EXPECT_EQ(cache->counts().damaged, 1);
}

TEST_F(BlockCacheTest, WhatKilledWritersLeftGoesAndIsNotCounted) {
  { const auto cache = open(10 * kStored); }
  const fs::path left = fs::path(folder_) / "scalai-blocks-1" / "new" / "4711.0";
  std::ofstream(left) << std::string(5000, 'x');
  std::ofstream(fs::path(folder_) / "scalai-blocks-1" / "notes.txt") << "not ours";
  const auto cache = open(10 * kStored);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(fs::path(folder_) / "scalai-blocks-1" / "notes.txt"));
}

TEST_F(BlockCacheTest, CountsAnewWhenSomebodyDidNotFinish) {
  const auto cache = open(4 * kStored);
  for (int64_t i = 0; i < 4; ++i) put(*cache, i);
  const std::string lock = folder_ + "/scalai-blocks-1/lock";
  const int64_t dirty = -1;
  std::ofstream(lock, std::ios::binary).write(reinterpret_cast<const char*>(&dirty), sizeof(dirty));
  const fs::path left = fs::path(folder_) / "scalai-blocks-1" / "new" / "4711.0";
  std::ofstream(left) << "half a block";
  put(*cache, 4);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(has(*cache, 4));
  EXPECT_EQ(bytes_on_disk(folder_), 4 * kStored);
}

TEST_F(BlockCacheTest, TheLockFileSaysThatSomebodyIsWriting) {
  const auto cache = open(4 * kStored);
  const auto in_use = [&] {
    int64_t bytes = 0;
    std::ifstream(folder_ + "/scalai-blocks-1/lock", std::ios::binary).read(reinterpret_cast<char*>(&bytes), 8);
    return bytes;
  };
  put(*cache, 0);
  EXPECT_EQ(in_use(), kStored);
  // The next file is a pipe, at which the writer waits as long as nobody reads.
  const std::string next = fmt::format("{}/scalai-blocks-1/new/{}.1", folder_, ::getpid());
  ASSERT_EQ(::mkfifo(next.c_str(), 0600), 0);
  std::thread writer([&] { put(*cache, 1); });
  for (int i = 0; i < 500 && in_use() != -1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(in_use(), -1);
  const int reader = ::open(next.c_str(), O_RDONLY | O_CLOEXEC);
  writer.join();
  ::close(reader);
  EXPECT_EQ(in_use(), 2 * kStored);
}

TEST_F(BlockCacheTest, ABoundForLessThanABlockIsRefused) {
  const absl::Status status = BlockCache::open(folder_, kStored - 1, kBlock).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_NE(message_of(status).find(folder_), std::string::npos);
}

TEST_F(BlockCacheTest, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(folder_ + "/file") << "x";
  const absl::Status status = BlockCache::open(folder_ + "/file/cache", 10 * kStored, kBlock).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_NE(message_of(status).find(folder_ + "/file/cache"), std::string::npos) << status;
}

TEST_F(BlockCacheTest, WithoutItsFolderItOnlyForgets) {
  const auto cache = open(10 * kStored);
  fs::remove_all(fs::path(folder_) / "scalai-blocks-1");
  put(*cache, 0);
  EXPECT_FALSE(has(*cache, 0));
  EXPECT_EQ(cache->counts().not_stored, 1);
}

TEST_F(BlockCacheTest, AStoppedHolderOfTheLockStopsNobody) {
  const auto cache = open(10 * kStored);
  const int fd = ::open((folder_ + "/scalai-blocks-1/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  put(*cache, 0);  // gives up after two seconds
  EXPECT_EQ(cache->counts().not_stored, 1);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 1; i < 10; ++i) put(*cache, i);  // at once
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(cache->counts().not_stored, 10);
  ::close(fd);
  put(*cache, 0);
  EXPECT_TRUE(has(*cache, 0));
}

TEST_F(BlockCacheTest, SeveralThreadsOfSeveralProcessesShareIt) {
  constexpr int64_t kLimit = 20 * kStored;
  std::vector<pid_t> children;
  for (uint64_t p = 0; p < 3; ++p) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {  // no gtest in here: its process is the parent
      absl::StatusOr<std::unique_ptr<BlockCache>> cache = BlockCache::open(folder_, kLimit, kBlock);
      std::atomic<int> wrong = cache.ok() ? 0 : 1;
      std::vector<std::thread> threads;
      for (uint64_t t = 0; t < 2; ++t) {
        threads.emplace_back([&, seed = 2 * p + t] {
          Random random(seed);
          for (int i = 0; i < 400; ++i) {
            const int64_t index = random.below(60);
            const std::string text = text_of(index);
            const auto found = (*cache)->get({kFile, index}, kBlock);
            if (found && std::memcmp(found->data(), text.data(), kBlock) != 0) ++wrong;
            if (!found) (*cache)->put({kFile, index}, std::as_bytes(std::span<const char>(text)));
            if (i % 20 == 0 && locked_bytes_on_disk() > kLimit) ++wrong;
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      ::_exit(wrong == 0 && (*cache)->counts().damaged == 0 && (*cache)->counts().hits > 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_LE(bytes_on_disk(folder_), kLimit);
  EXPECT_GT(bytes_on_disk(folder_), kLimit / 2);
}

}  // namespace
}  // namespace scalai::vfs
