#include "vfs/remote/remote_source.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <xxhash.h>

#include <fstream>

#include "ptc/base/process.h"
#include "ptc/base/status.h"
#include "vfs/remote/testing/test_server.h"

namespace scalai::vfs {
namespace remote_source_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Fault = TestServer::Fault;
using Request = TestServer::Request;

constexpr int64_t kBlock = 4096;
constexpr int64_t kBytes = 40 * kBlock + 123;

std::string checksum_of(const std::string& text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

class RemoteSourceTest : public RemoteTest {
 protected:
  RemoteSourceTest() : file_(random_bytes(kBytes, 3)), server_(file_, "\"one\"") {
    options_.block_bytes = kBlock;
    options_.most_request_bytes = 8 * kBlock;
    options_.read_ahead_bytes = 0;
    options_.retry.sleep = [](double) {};
    options_.http.stall_timeout_s = 1;
  }
  std::shared_ptr<Remote> make() {
    absl::StatusOr<std::shared_ptr<Remote>> remote = Remote::make(options_);
    EXPECT_TRUE(remote.ok()) << remote.status();
    return std::move(remote).value();
  }
  ByteSourcePtr open(const std::shared_ptr<Remote>& remote) {
    absl::StatusOr<ByteSourcePtr> source = remote->open(server_.url());
    EXPECT_TRUE(source.ok()) << source.status();
    return std::move(source).value();
  }
  absl::Status read(const ByteSourcePtr& source, int64_t offset, int64_t bytes) {
    absl::Status status;
    const std::string found = read_string(*source, offset, bytes, status);
    EXPECT_TRUE(!status.ok() || found == file_.substr(static_cast<size_t>(offset), static_cast<size_t>(bytes)));
    return status;
  }
  // Ranges asked for since the last call, in the order of their arrival.
  std::vector<std::string> ranges() {
    std::vector<std::string> found;
    const std::vector<Request> all = server_.requests();
    for (; seen_ < all.size(); ++seen_) found.push_back(fmt::format("{}-{}", all[seen_].first, all[seen_].last));
    return found;
  }
  static std::string blocks(int64_t first, int64_t last) {
    return fmt::format("{}-{}", first * kBlock, std::min(last * kBlock, kBytes) - 1);
  }

  std::string file_;
  TestServer server_;
  RemoteOptions options_;
  size_t seen_ = 0;
};

using Ranges = std::vector<std::string>;

TEST_F(RemoteSourceTest, NeighbouringMissingBlocksAreOneRequest) {
  const ByteSourcePtr source = open(make());
  EXPECT_EQ(source->size(), kBytes);
  EXPECT_EQ(source->name(), server_.url());
  EXPECT_EQ(ranges(), Ranges{"0-0"});
  EXPECT_TRUE(read(source, 2 * kBlock + 5, 3 * kBlock).ok());
  EXPECT_EQ(ranges(), Ranges{blocks(2, 6)});
  EXPECT_TRUE(read(source, 0, 8 * kBlock).ok());
  EXPECT_EQ(ranges(), (Ranges{blocks(0, 2), blocks(6, 8)}));
  EXPECT_TRUE(read(source, kBlock, 7 * kBlock).ok());
  EXPECT_EQ(ranges(), Ranges{});
  EXPECT_TRUE(read(source, kBytes - 1, 1).ok());
  EXPECT_EQ(ranges(), Ranges{blocks(40, 41)});
  EXPECT_TRUE(source->read(kBytes, {}).ok());
}

TEST_F(RemoteSourceTest, RequestsHaveALargestSize) {
  const ByteSourcePtr source = open(make());
  ranges();
  EXPECT_TRUE(read(source, kBlock + 1, 18 * kBlock).ok());
  EXPECT_EQ(ranges(), (Ranges{blocks(1, 9), blocks(9, 17), blocks(17, 20)}));
}

TEST_F(RemoteSourceTest, ReadsAheadWhenReadsFollowEachOther) {
  options_.read_ahead_bytes = 4 * kBlock;
  const ByteSourcePtr source = open(make());
  ranges();
  for (int64_t at = 0; at < kBytes; at += 1000)
    ASSERT_TRUE(read(source, at, std::min(int64_t{1000}, kBytes - at)).ok());
  EXPECT_EQ(ranges(), (Ranges{blocks(0, 1), blocks(1, 3), blocks(3, 6), blocks(6, 11), blocks(11, 16), blocks(16, 21),
                              blocks(21, 26), blocks(26, 31), blocks(31, 36), blocks(36, 41)}));
}

TEST_F(RemoteSourceTest, JumpsDoNotReadAhead) {
  options_.read_ahead_bytes = 4 * kBlock;
  const ByteSourcePtr source = open(make());
  ranges();
  for (const int64_t block : {30, 20, 10, 25}) ASSERT_TRUE(read(source, block * kBlock, 10).ok());
  EXPECT_EQ(ranges(), (Ranges{blocks(30, 31), blocks(20, 21), blocks(10, 11), blocks(25, 26)}));
}

TEST_F(RemoteSourceTest, SeveralThreadsFetchABlockOnce) {
  server_.set_faults([](const Request& request) { return Fault{.stall_s = request.last > 0 ? 0.2 : 0}; });
  const ByteSourcePtr source = open(make());
  ranges();
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { good += read(source, 3 * kBlock + 7, 100).ok(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(ranges(), Ranges{blocks(3, 4)});
}

TEST_F(RemoteSourceTest, ThreadsReadAtRandomUnderFaults) {
  options_.cache_folder = folder_;
  options_.cache_bytes = 12 * kBlock;
  options_.memory_bytes = 4 * kBlock;
  options_.read_ahead_bytes = 2 * kBlock;
  server_.set_faults([](const Request& request) {
    switch (request.number % 7) {
      case 1: return Fault{.status = 503};
      case 3: return Fault{.cut_after = 2000};
      case 5: return Fault{.close = true};
      default: return Fault{};
    }
  });
  options_.retry.attempts = 30;  // requests of eight threads meet the faults by chance
  const std::shared_ptr<Remote> remote = make();
  const ByteSourcePtr source = open(remote);
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Random random(t);
      for (int i = 0; i < 60; ++i) {
        const int64_t offset = random.below(kBytes);
        good += read(source, offset, random.between(0, std::min(kBytes - offset, 10 * kBlock))).ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 8 * 60);
  EXPECT_GT(remote->statistics().retries, 10);
  EXPECT_GT(remote->statistics().disk_hits, 10);
  EXPECT_LE(bytes_on_disk(folder_), 12 * kBlock);
}

TEST_F(RemoteSourceTest, TheNextProcessReadsFromDisk) {
  options_.cache_folder = folder_;
  EXPECT_TRUE(read(open(make()), 0, kBytes).ok());
  ranges();
  const std::shared_ptr<Remote> remote = make();
  EXPECT_TRUE(read(open(remote), 0, kBytes).ok());
  EXPECT_EQ(ranges(), Ranges{"0-0"});
  EXPECT_EQ(remote->statistics().disk_hits, 41);
  EXPECT_EQ(remote->statistics().bytes_fetched, 0);
}

// A server that tells neither ETag nor date may have another file tomorrow.
TEST_F(RemoteSourceTest, WithoutAVersionNothingOutlivesTheSource) {
  options_.cache_folder = folder_;
  server_.set_file(file_, "");
  const std::shared_ptr<Remote> remote = make();
  EXPECT_TRUE(read(open(remote), 0, kBytes).ok());
  EXPECT_EQ(remote->statistics().unversioned, 1);
  EXPECT_EQ(remote->statistics().disk_stored, 0);
  file_ = random_bytes(kBytes, 99);
  server_.set_file(file_, "");
  EXPECT_TRUE(read(open(remote), 0, kBytes).ok()) << "read() compares";
  EXPECT_TRUE(read(open(make()), 0, kBytes).ok());
  server_.set_last_modified("Sun, 22 Nov 2026 05:00:00 GMT");
  const std::shared_ptr<Remote> dated = make();
  EXPECT_TRUE(read(open(dated), 0, kBytes).ok());
  EXPECT_EQ(dated->statistics().unversioned, 0);
  EXPECT_GT(dated->statistics().disk_stored, 0);
}

// What a server without versions has changed is never among what it has not.
TEST_F(RemoteSourceTest, WithoutAVersionTheFirstBytesOfABlockCount) {
  server_.set_file(file_, "");
  options_.memory_bytes = 2 * kBlock;
  const ByteSourcePtr source = open(make());
  EXPECT_TRUE(read(source, 0, kBytes).ok());
  const std::string old = file_;
  std::string changed = file_;
  changed[5 * kBlock + 17] ^= 1;
  server_.set_file(changed, "");
  EXPECT_TRUE(read(source, 4 * kBlock, kBlock).ok());  // is as it was, and fetched again
  const absl::Status status = read(source, 5 * kBlock, 10);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr(server_.url() + ": was changed while in use: bytes 20480 to 24575"));
  EXPECT_THAT(message_of(status), HasSubstr("neither ETag nor Last-Modified"));
}

TEST_F(RemoteSourceTest, WithoutAVersionAllThatWasReadIsReadAgain) {
  server_.set_file(file_, "");
  const ByteSourcePtr source = open(make());
  EXPECT_TRUE(read(source, 3 * kBlock, 2 * kBlock).ok());
  EXPECT_TRUE(read(source, 20 * kBlock, 10).ok());
  ranges();
  EXPECT_TRUE(source->confirm().ok());
  EXPECT_EQ(ranges(), (Ranges{blocks(3, 5), blocks(20, 21)}));
  // Blocks behind the change were new when they were read first: no read could tell.
  std::string changed = file_;
  for (size_t at = 3 * kBlock; at < changed.size(); ++at) changed[at] ^= 1;
  server_.set_file(changed, "");
  std::string got(10, ' ');
  EXPECT_TRUE(source->read(30 * kBlock, std::as_writable_bytes(std::span(got))).ok());
  const absl::Status status = source->confirm();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("was changed while in use: bytes 12288 to 16383"));
}

TEST_F(RemoteSourceTest, ASourceThatIsTrustedIsNotReadAgain) {
  server_.set_file(file_, "");
  options_.trust_source = options_.require_version = true;
  const ByteSourcePtr source = open(make());
  EXPECT_TRUE(read(source, 0, kBytes).ok());
  ranges();
  EXPECT_TRUE(source->confirm().ok());
  EXPECT_EQ(ranges(), Ranges{});
}

TEST_F(RemoteSourceTest, AVersionMayBeRequired) {
  options_.require_version = true;
  const std::shared_ptr<Remote> remote = make();
  EXPECT_TRUE(remote->open(server_.url()).ok());
  server_.set_file(file_, "");
  const absl::Status refused = remote->open(server_.url()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(message_of(refused), HasSubstr("the server tells no version"));
  EXPECT_THAT(message_of(refused), HasSubstr("--trust-source"));
  server_.set_last_modified("Mon, 23 Nov 2026 10:00:00 GMT");
  EXPECT_TRUE(remote->open(server_.url()).ok());
}

TEST_F(RemoteSourceTest, AStalledServerEndsAReadOfManyRangesOnce) {
  options_.retry = {.attempts = 1000, .first_wait_s = 0.01, .longest_wait_s = 0.01, .total_s = 0.3};
  const ByteSourcePtr source = open(make());
  for (const int64_t block : {1, 3, 5, 7}) EXPECT_TRUE(read(source, block * kBlock, kBlock).ok());
  server_.set_faults([](const Request&) { return Fault{.stall_s = 5}; });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(read(source, 0, 8 * kBlock).code(), absl::StatusCode::kAborted);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(900));
  server_.set_faults([](const Request&) { return Fault{}; });
  EXPECT_TRUE(read(source, 0, 8 * kBlock).ok());
}

TEST_F(RemoteSourceTest, ADamagedBlockIsFetchedAgain) {
  options_.cache_folder = folder_;
  EXPECT_TRUE(read(open(make()), 0, kBytes).ok());
  int damaged = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_)) {
    if (entry.path().extension() != ".5") continue;
    std::fstream(entry.path(), std::ios::in | std::ios::out | std::ios::binary).seekp(1000).put('\x7f').put('\x7e');
    ++damaged;
  }
  ASSERT_EQ(damaged, 1);
  ranges();
  const std::shared_ptr<Remote> remote = make();
  EXPECT_TRUE(read(open(remote), 0, kBytes).ok());
  EXPECT_EQ(ranges(), (Ranges{"0-0", blocks(5, 6)}));
  EXPECT_EQ(remote->statistics().disk_damaged, 1);
  EXPECT_TRUE(read(open(make()), 0, kBytes).ok());
  EXPECT_EQ(ranges(), Ranges{"0-0"}) << "it was stored again";
}

TEST_F(RemoteSourceTest, OldAndNewVersionsNeverMix) {
  options_.cache_folder = folder_;
  const std::shared_ptr<Remote> remote = make();
  const ByteSourcePtr before = open(remote);
  EXPECT_TRUE(read(before, 0, 10 * kBlock).ok());
  const std::string old = file_;
  file_ = random_bytes(kBytes, 4);
  server_.set_file(file_, "\"two\"");
  const absl::Status status = read(before, 20 * kBlock, 10);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(message_of(status).find(server_.url() + ": was changed"), 0u) << status;
  EXPECT_TRUE(read(open(remote), 0, kBytes).ok());  // in memory are blocks of both
  EXPECT_TRUE(read(open(make()), 0, kBytes).ok());  // on disk as well
  file_ = old;
  EXPECT_TRUE(read(before, 0, 10 * kBlock).ok()) << "what it has is still its version";
}

TEST_F(RemoteSourceTest, SecretsAreNotShown) {
  options_.retry.attempts = 2;
  const std::string url = server_.url("/file?token=secret", "me:secret@");
  const absl::StatusOr<ByteSourcePtr> source = make()->open(url);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->name(), server_.url());
  EXPECT_EQ(server_.requests()[0].path, "/file?token=secret");
  EXPECT_EQ(server_.requests()[0].headers["authorization"], "Basic bWU6c2VjcmV0");
  for (const Fault& fault :
       {Fault{.status = 500}, Fault{.status = 403}, Fault{.close = true}, Fault{.ignore_range = true}}) {
    server_.set_faults([=](const Request&) { return fault; });
    absl::Status status;
    read_string(**source, 0, 10, status);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(message_of(status).find("secret"), std::string::npos) << status;
    EXPECT_EQ(make()->open(url).status().message().find("secret"), std::string::npos);
  }
}

TEST_F(RemoteSourceTest, TheVersionIsThatOfTheServer) {
  const std::string first = open(make())->version();
  EXPECT_NE(first, "");
  EXPECT_EQ(open(make())->version(), first);
  server_.set_file(file_, "\"another\"");
  EXPECT_NE(open(make())->version(), first);
  server_.set_file(file_, "");
  EXPECT_EQ(open(make())->version(), "") << "neither ETag nor date";
}

TEST_F(RemoteSourceTest, TheOpenerTakesPathsAndAddresses) {
  const std::string path = folder_ + "/local";
  std::ofstream(path, std::ios::binary) << file_;
  const absl::StatusOr<SourceOpener> opener = make_opener(options_);
  ASSERT_TRUE(opener.ok());
  for (const std::string& location : {path, server_.url()}) {
    const absl::StatusOr<ByteSourcePtr> source = (*opener)(location);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ((*source)->name(), location);
    EXPECT_TRUE(read(*source, 0, kBytes).ok());
    EXPECT_TRUE(verify_xxh3_128(**source, checksum_of(file_)).ok());
  }
  EXPECT_EQ((*opener)(folder_ + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(make()->open(path).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RemoteSourceTest, AnotherChecksumIsNamed) {
  const absl::StatusOr<ByteSourcePtr> source = open_remote_source(server_.url(), options_);
  ASSERT_TRUE(source.ok());
  const absl::Status status = verify_xxh3_128(**source, std::string(32, '0'));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message_of(status), fmt::format("{}: its checksum is {}, expected {}", server_.url(), checksum_of(file_),
                                            std::string(32, '0')));
}

TEST_F(RemoteSourceTest, OptionsOutOfRangeAreRefused) {
  options_.block_bytes = 4095;
  EXPECT_EQ(Remote::make(options_).status().code(), absl::StatusCode::kInvalidArgument);
  options_.block_bytes = kBlock;
  options_.retry.attempts = 0;
  EXPECT_EQ(Remote::make(options_).status().code(), absl::StatusCode::kInvalidArgument);
}

// --- killed in the middle --------------------------------------------------------------------------------------------

pid_t start(const std::vector<std::string>& words) {
  const absl::StatusOr<pid_t> child = spawn({.program = words.front(), .words = words});
  EXPECT_TRUE(child.ok()) << child.status();
  return child.value_or(-1);
}

TEST_F(RemoteSourceTest, KilledProcessesLeaveACacheThatIsRight) {
  const char* asked = std::getenv("SCALAI_KILLS");
  const int kills = asked == nullptr ? 10 : std::atoi(asked);
  const int64_t limit = 30 * kBlock;  // less than the file: it evicts all the time
  const std::vector<std::string> words = {REMOTE_READER,         server_.url(),          folder_,
                                          std::to_string(limit), std::to_string(kBlock), checksum_of(file_)};
  Random random(5);
  for (int i = 0; i < kills; ++i) {
    SCOPED_TRACE(i);
    const pid_t one = start(words), other = start(words);  // both at once on one folder
    std::this_thread::sleep_for(std::chrono::microseconds(random.between(5'000, 60'000)));
    int status = 0;
    for (const pid_t child : {one, other}) {
      ::kill(child, SIGKILL);
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself with " << WEXITSTATUS(status);
    }
    EXPECT_LE(bytes_on_disk(folder_), limit);
  }
  std::vector<std::string> once = words;
  once.emplace_back("once");
  const pid_t last = start(once);
  int status = 0;
  ASSERT_EQ(::waitpid(last, &status, 0), last);
  EXPECT_EQ(status, 0);
  EXPECT_LE(bytes_on_disk(folder_), limit);
  EXPECT_TRUE(fs::is_empty(fs::path(folder_) / "scalai-blocks-1" / "new")) << "left by one that was killed";
  options_.cache_folder = folder_;
  options_.cache_bytes = limit;
  const std::shared_ptr<Remote> remote = make();
  EXPECT_TRUE(read(open(remote), 0, kBytes).ok());
  EXPECT_EQ(remote->statistics().disk_damaged, 0);
}

}  // namespace remote_source_test
}  // namespace scalai::vfs
