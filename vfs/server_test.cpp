#include "vfs/server.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "vfs/control.h"
#include "vfs/mounts.h"
#include "vfs/testing/fake_tree.h"

namespace scalai::vfs {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kFileBytes = 5'000'003;  // several requests, and a last page that is not full

class ServerTest : public ::testing::TestWithParam<ReadPath> {
 protected:
  void SetUp() override {
    std::string folder = fmt::format("{}/vfs-server-XXXXXX", ::testing::TempDir());
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = std::filesystem::canonical(folder).string();
    mount_ = folder_ + "/mnt";
    std::filesystem::create_directory(mount_);
    auto log = Log::to_file(folder_ + "/log");
    ASSERT_TRUE(log.ok());
    log_ = std::make_unique<Log>(std::move(*log));
    children_ = {{"data", fake_file(1, kFileBytes)}, {"empty", fake_file(2, 0)}};
  }
  void TearDown() override {
    server_.reset();
    const bool left = mount_at(mount_).has_value();
    EXPECT_FALSE(left) << "a mount was left over";
    if (left) (void)unmount(mount_, /*force=*/true);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // False: mounting is not possible here, and the test is skipped.
  bool mount() {
    auto server = Server::mount(std::make_shared<FixedFolder>(children_),
                                {.directory = mount_, .threads = 4, .reads = GetParam()}, *log_,
                                [this](const std::string& request) { return control(request); });
    if (server.status().code() == absl::StatusCode::kNotFound) {
      skipped_ = message_of(server.status());
      return false;
    }
    EXPECT_TRUE(server.ok()) << message_of(server.status());
    if (server.ok()) server_ = std::move(*server);
    return server.ok();
  }
  absl::StatusOr<std::string> control(const std::string& request) {
    if (request == "fail") return invalid("it failed");
    return "got " + request;
  }
  std::string path(const std::string& name) const { return mount_ + "/" + name; }
  std::string log_text() {
    log_->flush();
    return *read_file(folder_ + "/log");
  }

  std::string folder_, mount_, skipped_;
  std::unique_ptr<Log> log_;
  std::vector<std::pair<std::string, Node>> children_;
  std::unique_ptr<Server> server_;
};

#define MOUNT_OR_SKIP()                     \
  do {                                      \
    if (!mount()) GTEST_SKIP() << skipped_; \
  } while (false)

// Bytes [offset, offset + bytes) of an open file; "" and errno on an error.
std::string bytes_at(int fd, int64_t offset, size_t bytes) {
  std::string text(bytes, '\0');
  const ssize_t got = ::pread(fd, text.data(), bytes, offset);
  text.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return text;
}

std::string expected_bytes(uint64_t seed, int64_t offset, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(fake_byte(seed, offset + static_cast<int64_t>(i)));
  return text;
}

TEST_P(ServerTest, ShowsSizesAndBytes) {
  MOUNT_OR_SKIP();
  struct stat status = {};
  ASSERT_EQ(::stat(path("data").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, kFileBytes);
  EXPECT_EQ(status.st_mode, S_IFREG | 0444U);
  EXPECT_EQ(status.st_uid, ::getuid());
  EXPECT_EQ(*read_file(path("data")), expected_bytes(1, 0, kFileBytes));
  EXPECT_EQ(*read_file(path("empty")), "");
  const int fd = ::open(path("data").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(bytes_at(fd, kFileBytes - 3, 100), expected_bytes(1, kFileBytes - 3, 3));
  EXPECT_EQ(bytes_at(fd, kFileBytes + 5, 100), "");
  ::close(fd);
  EXPECT_GE(server_->statistics().bytes, kFileBytes);
  EXPECT_EQ(server_->statistics().errors, 0);
}

TEST_P(ServerTest, AnswersManyReadersAtOnce) {
  MOUNT_OR_SKIP();
  std::vector<std::thread> readers;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    readers.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      const int fd = ::open(path("data").c_str(), O_RDONLY);
      ASSERT_GE(fd, 0);
      for (int i = 0; i < 50; ++i) {
        const int64_t offset = static_cast<int64_t>(random() % kFileBytes);
        const size_t bytes = std::min<size_t>(1 + random() % 300'000, static_cast<size_t>(kFileBytes - offset));
        ASSERT_EQ(bytes_at(fd, offset, bytes), expected_bytes(1, offset, bytes)) << "seed " << seed << ", read " << i;
      }
      ::close(fd);
    });
  }
  for (std::thread& reader : readers) reader.join();
}

TEST_P(ServerTest, MapsFiles) {
  MOUNT_OR_SKIP();
  for (const int flags : {MAP_PRIVATE, MAP_SHARED}) {
    const int fd = ::open(path("data").c_str(), O_RDONLY);
    ASSERT_GE(fd, 0);
    void* const map = ::mmap(nullptr, kFileBytes, PROT_READ, flags, fd, 0);
    if (map == MAP_FAILED && GetParam() == ReadPath::kDirect && flags == MAP_SHARED) {
      EXPECT_EQ(errno, ENODEV) << "kernels before 6.6";
    } else {
      ASSERT_NE(map, MAP_FAILED) << std::strerror(errno);
      EXPECT_EQ(std::string(static_cast<const char*>(map), kFileBytes), expected_bytes(1, 0, kFileBytes));
      ::munmap(map, kFileBytes);
    }
    ::close(fd);
  }
}

TEST_P(ServerTest, WritesAreRefused) {
  MOUNT_OR_SKIP();
  EXPECT_EQ(::open(path("data").c_str(), O_WRONLY), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::open(path("new").c_str(), O_WRONLY | O_CREAT, 0644), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::unlink(path("data").c_str()), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::mkdir(path("folder").c_str(), 0755), -1);
  EXPECT_EQ(errno, EROFS);
}

TEST_P(ServerTest, ErrorsGoToTheReaderAndTheLog) {
  const auto source = std::make_shared<FakeSource>(3, 100'000);
  children_.emplace_back("cut", file_node(source));
  children_.emplace_back("gone",
                         std::shared_ptr<File>(std::make_shared<BadFile>(int64_t{5}, missing("x.bin: no such file"))));
  children_.emplace_back(
      "closed", std::shared_ptr<File>(std::make_shared<BadFile>(int64_t{5}, absl::PermissionDeniedError("x: closed"))));
  children_.emplace_back(
      "dark", std::shared_ptr<File>(std::make_shared<BadFile>(invalid("the index is damaged"), absl::OkStatus())));
  MOUNT_OR_SKIP();
  const int fd = ::open(path("cut").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(bytes_at(fd, 0, 100), expected_bytes(3, 0, 100));
  source->broken = true;
  EXPECT_EQ(bytes_at(fd, 50'000, 100), "");
  EXPECT_EQ(errno, EIO);
  EXPECT_THAT(log_text(), HasSubstr("scalai fs: cut: fake-3: was cut while in use\n"));
  source->broken = false;
  EXPECT_EQ(bytes_at(fd, 50'000, 100), expected_bytes(3, 50'000, 100)) << "the server lives on";
  ::close(fd);
  const std::vector<std::pair<std::string, int>> errors = {
      {"gone", ENOENT}, {"closed", EACCES}, {"dark", EIO}, {"nothing", ENOENT}};
  for (const auto& [name, error] : errors) {
    EXPECT_EQ(::open(path(name).c_str(), O_RDONLY), -1) << name;
    EXPECT_EQ(errno, error) << name;
  }
  EXPECT_THAT(log_text(), HasSubstr("gone: x.bin: no such file\n"));
  EXPECT_THAT(log_text(), HasSubstr("dark: the index is damaged\n"));
  EXPECT_THAT(log_text(), ::testing::Not(HasSubstr("nothing"))) << "a name that is not there is no error";
  EXPECT_GE(server_->statistics().errors, 4) << "read-ahead fails, too";
}

std::vector<std::string> listing(const std::string& path) {
  std::vector<std::string> names;
  DIR* const folder = ::opendir(path.c_str());
  if (folder == nullptr) return names;
  while (const dirent* entry = ::readdir(folder)) names.emplace_back(entry->d_name);
  ::closedir(folder);
  return names;
}

TEST_P(ServerTest, ListsTensOfThousands) {
  constexpr int64_t kCount = 20'000;
  const auto slow = std::make_shared<ManyFiles>(kCount, /*quick=*/false);
  const auto quick = std::make_shared<ManyFiles>(kCount, /*quick=*/true);
  children_.emplace_back("slow", folder_node(slow));
  children_.emplace_back("quick", folder_node(quick));
  MOUNT_OR_SKIP();
  for (const char* folder : {"slow", "quick"}) {
    std::vector<std::string> names = listing(path(folder));
    ASSERT_EQ(names.size(), static_cast<size_t>(kCount + 2)) << folder;
    EXPECT_EQ(names[0], ".");
    EXPECT_EQ(names[1], "..");
    std::vector<std::string> expected;
    for (int64_t i = 0; i < kCount; ++i) expected.push_back(ManyFiles::name_of(i));
    names.erase(names.begin(), names.begin() + 2);
    EXPECT_EQ(names, expected) << folder;
    struct stat status = {};
    ASSERT_EQ(::stat(path(fmt::format("{}/{}", folder, expected[12'345])).c_str(), &status), 0);
    EXPECT_EQ(status.st_size, 100);
  }
  EXPECT_LT(slow->finds, 10) << "a listing alone makes no file";
}

TEST_P(ServerTest, ForgetsWhatTheKernelForgets) {
  children_.emplace_back("many", folder_node(std::make_shared<ManyFiles>(5000, true)));
  MOUNT_OR_SKIP();
  struct stat status = {};
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(::stat(path("many/" + ManyFiles::name_of(i)).c_str(), &status), 0);
  }
  EXPECT_GE(server_->nodes(), 5000u);
  if (std::getenv("SCALAI_DROP_CACHES") == nullptr || ::geteuid() != 0)
    GTEST_SKIP() << "SCALAI_DROP_CACHES=1 (and root) lets this test empty the machine's caches, the only way to make a "
                    "kernel forget";
  std::ofstream("/proc/sys/vm/drop_caches") << 2 << std::flush;
  for (int i = 0; i < 100 && server_->nodes() > 100; ++i) ::usleep(20'000);
  if (server_->nodes() > 100) GTEST_SKIP() << "the kernel does not let go: " << server_->nodes();
  ASSERT_EQ(::stat(path("many/" + ManyFiles::name_of(77)).c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 100);
}

TEST_P(ServerTest, LinksAreFollowedAnew) {
  const auto link = std::make_shared<SwitchedLink>("data");
  children_.emplace_back("current", std::shared_ptr<Link>(link));
  MOUNT_OR_SKIP();
  struct stat status = {};
  ASSERT_EQ(::stat(path("current").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, kFileBytes);
  const int fd = ::open(path("current").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  for (int i = 0; i < 20; ++i) {
    link->set(i % 2 == 0 ? "empty" : "data");
    ASSERT_EQ(std::filesystem::read_symlink(path("current")).string(), link->target());
    ASSERT_EQ(::stat(path("current").c_str(), &status), 0);
    ASSERT_EQ(status.st_size, i % 2 == 0 ? 0 : kFileBytes);
    ASSERT_EQ(bytes_at(fd, 100, 10), expected_bytes(1, 100, 10)) << "what is open stays";
  }
  ::close(fd);
}

TEST_P(ServerTest, AnswersOnTheControlChannel) {
  MOUNT_OR_SKIP();
  EXPECT_EQ(*ask(mount_, "repartition dp=6"), "got repartition dp=6");
  const absl::Status error = ask(mount_, "fail").status();
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message_of(error), "it failed");
}

TEST_P(ServerTest, EndsUnderOpenFiles) {
  MOUNT_OR_SKIP();
  const int fd = ::open(path("data").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  EXPECT_FALSE(unmount(mount_, /*force=*/false).ok()) << "in use";
  EXPECT_TRUE(server_->stop(/*patience_s=*/5));
  EXPECT_FALSE(mount_at(mount_).has_value());
  EXPECT_EQ(bytes_at(fd, 2'000'000, 10), "");
  EXPECT_THAT(errno, ::testing::AnyOf(ENOTCONN, ECONNABORTED, EIO));
  ::close(fd);
}

TEST_P(ServerTest, NoticesThatOthersUnmount) {
  MOUNT_OR_SKIP();
  pollfd ended = {server_->ended(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 0), 0);
  const absl::Status gone = unmount(mount_, /*force=*/false);
  EXPECT_TRUE(gone.ok()) << message_of(gone);
  EXPECT_EQ(::poll(&ended, 1, 5000), 1);
  EXPECT_TRUE(server_->stop(1));
}

TEST_P(ServerTest, EndsOnlyItsOwnMount) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can detach a mount";
  MOUNT_OR_SKIP();
  const int fd = ::open(path("data").c_str(), O_RDONLY);  // keeps the first mount alive
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::umount2(mount_.c_str(), MNT_DETACH), 0);
  std::unique_ptr<Server> first = std::move(server_);
  ASSERT_TRUE(mount());
  EXPECT_TRUE(first->stop(/*patience_s=*/5));
  EXPECT_TRUE(mount_at(mount_).has_value()) << "the mount of another server is gone";
  EXPECT_EQ(*ask(mount_, "repartition dp=6"), "got repartition dp=6");
  ::close(fd);
}

TEST_P(ServerTest, MountsOnceAtAFolder) {
  MOUNT_OR_SKIP();
  const auto second = Server::mount(std::make_shared<FixedFolder>(children_), {.directory = mount_, .threads = 1},
                                    *log_, [](const std::string&) { return std::string(); });
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(second.status()), HasSubstr("already"));
  EXPECT_EQ(*ask(mount_, "a"), "got a");
}

TEST_P(ServerTest, OfSeveralThatMountAtOnceOneDoes) {
  MOUNT_OR_SKIP();
  server_.reset();
  std::vector<std::unique_ptr<Server>> servers(4);
  std::vector<std::thread> threads;
  for (auto& one : servers) {
    threads.emplace_back([&] {
      auto made = Server::mount(std::make_shared<FixedFolder>(children_), {.directory = mount_, .threads = 1}, *log_,
                                [](const std::string&) { return std::string(); });
      if (made.ok()) one = std::move(*made);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(servers.begin(), servers.end(), nullptr), 3);
}

// Whose names cost more memory than there is.
class HugeFolder final : public Directory {
 public:
  absl::StatusOr<Node> find(const std::string& name) override {
    if (name == "long") throw std::length_error("a name");
    throw std::bad_alloc();
  }
  int64_t entries() override { return 0; }
  Entry entry(int64_t) override { return {}; }
};

TEST_P(ServerTest, ExceptionsAreErrors) {
  children_.emplace_back("huge", folder_node(std::make_shared<HugeFolder>()));
  MOUNT_OR_SKIP();
  struct stat status = {};
  EXPECT_EQ(::stat(path("huge/a").c_str(), &status), -1);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(::stat(path("huge/long").c_str(), &status), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(::stat(path("data").c_str(), &status), 0) << "the server lives on";
}

INSTANTIATE_TEST_SUITE_P(ReadPaths, ServerTest,
                         ::testing::Values(ReadPath::kAuto, ReadPath::kDirect, ReadPath::kCached),
                         [](const auto& tested) {
                           return tested.param == ReadPath::kAuto     ? "Auto"
                                  : tested.param == ReadPath::kDirect ? "Direct"
                                                                      : "Cached";
                         });

}  // namespace
}  // namespace scalai::vfs
