#include "ptc/base/scratch_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "ptc/base/file.h"

namespace scalai {
namespace {

namespace fs = std::filesystem;

class ScratchFolderTest : public testing::Test {
 protected:
  ScratchFolderTest() {
    std::string pattern = testing::TempDir() + "scalai-scratch-test-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", folder_.c_str(), 1);
  }
  ~ScratchFolderTest() override {
    if (before_) ::setenv("TMPDIR", before_->c_str(), 1);
    if (!before_) ::unsetenv("TMPDIR");
    fs::remove_all(folder_);
  }
  size_t count() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  std::string folder_;
  std::optional<std::string> before_;
};

TEST_F(ScratchFolderTest, GoesWithTheObject) {
  {
    const ScratchFolder one("scalai-launch"), other("scalai-launch");
    ASSERT_FALSE(one.path().empty());
    EXPECT_TRUE(one.path().starts_with(folder_ + "/scalai-launch-"));
    EXPECT_NE(one.path(), other.path());
    EXPECT_TRUE(write_file(one.path() + "/f", "x").ok());
    EXPECT_EQ(count(), 2u);
  }
  EXPECT_EQ(count(), 0u);
}

TEST_F(ScratchFolderTest, OfAKilledProcessGoesWithTheNext) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const ScratchFolder left("scalai-launch");
    (void)write_file(left.path() + "/log", "x");
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(count(), 1u);
  for (const char* name : {"scalai-launch-mine", "scalai-launch-abcdef7", "scalai-launch"})
    fs::create_directory(fs::path(folder_) / name);
  { const ScratchFolder another("scalai-near"); }
  EXPECT_EQ(count(), 4u) << "names of others stay";
  const ScratchFolder living("scalai-launch");
  EXPECT_EQ(count(), 4u);
  const ScratchFolder next("scalai-launch");
  EXPECT_TRUE(fs::exists(living.path()));
}

// Each looks for abandoned folders while the others make theirs.
TEST_F(ScratchFolderTest, ManyAtOnceKeepTheirs) {
  std::atomic<int> lost = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&lost] {
      for (int k = 0; k < 25; ++k) {
        const ScratchFolder folder("scalai-launch");
        if (!write_file(folder.path() + "/f", "x").ok()) ++lost;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(count(), 0u);
}

TEST_F(ScratchFolderTest, NoneWhereNoneCanBeMade) {
  ::setenv("TMPDIR", (folder_ + "/none").c_str(), 1);
  EXPECT_EQ(ScratchFolder("scalai-launch").path(), "");
}

}  // namespace
}  // namespace scalai
