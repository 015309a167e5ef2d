#include "ptc/store/safetensors/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/safetensors/testing/test_job.h"

namespace scalai::store {
namespace {

using FilesTest = FolderTest;

TEST_F(FilesTest, AnOutputFileStaysOnlyWhenFinished) {
  {
    absl::StatusOr<OutputFile> file = OutputFile::create(path("f"), 5);
    ASSERT_TRUE(file.ok());
    OutputFile moved = *std::move(file);
    ASSERT_TRUE(moved.append(bytes_of("ab")).ok());
    EXPECT_TRUE(std::filesystem::exists(path("f")));
  }
  EXPECT_FALSE(std::filesystem::exists(path("f")));
  {
    absl::StatusOr<OutputFile> file = OutputFile::create(path("f"), 5);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->append(bytes_of("ab")).ok());
    ASSERT_TRUE(file->append(bytes_of("cde")).ok());
    ASSERT_TRUE(file->finish().ok());
  }
  EXPECT_EQ(*read_file(path("f")), "abcde");
}

TEST_F(FilesTest, MakesFoldersWithTheirParents) {
  ASSERT_TRUE(make_synced_folders(path("a/b/c/")).ok());
  EXPECT_TRUE(std::filesystem::is_directory(path("a/b/c")));
  EXPECT_TRUE(make_synced_folders(path("a/b/c")).ok());
  ASSERT_TRUE(write_synced(path("a/f"), "x").ok());
  EXPECT_EQ(message_of(make_synced_folders(path("a/f"))), path("a/f") + ": cannot create folder: File exists");
  EXPECT_EQ(make_synced_folders(path("a/f/g")).code(), absl::StatusCode::kNotFound);
}

// A folder "step" with the old content, and "new" with what is to replace it.
class PublishTest : public FolderTest {
 protected:
  void SetUp() override {
    for (const char* name : {"new", "step"}) {
      ASSERT_TRUE(make_synced_folders(path(name)).ok());
      ASSERT_TRUE(write_synced(path(name) + "/f", name).ok());
    }
  }
  void reset() {
    for (const std::string& folder : {path("step"), path("new"), replaced_name(path("step"))}) remove_folder(folder);
    SetUp();
  }
  std::string publish(const PublishCalls& calls) {
    return message_of(publish_folder(path("new"), path("step"), Existing::kReplaced, calls));
  }
  // Contents of "f" in the three folders; "-" = not there.
  std::string state() const {
    std::string all;
    for (const std::string& folder : {path("step"), path("new"), replaced_name(path("step"))}) {
      all += (all.empty() ? "" : " ") + read_file(folder + "/f").value_or("-");
    }
    return all;
  }
  static PublishCalls without_exchange(int error) {
    PublishCalls calls;
    calls.exchange = [error](const char*, const char*) {
      errno = error;
      return -1;
    };
    return calls;
  }
};

TEST_F(PublishTest, ReplacesWhereFoldersCanBeExchangedAndWhereNot) {
  EXPECT_EQ(publish({}), "");
  EXPECT_EQ(state(), "new - -");
  for (const int error : {EINVAL, ENOSYS, EOPNOTSUPP}) {
    reset();
    EXPECT_EQ(publish(without_exchange(error)), "") << strerror(error);
    EXPECT_EQ(state(), "new - -");
  }
}

TEST_F(PublishTest, AnotherErrorLeavesBothUnchanged) {
  EXPECT_NE(publish(without_exchange(EACCES)), "");
  EXPECT_EQ(state(), "step new -");
}

TEST_F(PublishTest, GoesOnAfterAKillBetweenTheTwoSteps) {
  std::filesystem::rename(path("step"), replaced_name(path("step")));
  EXPECT_EQ(state(), "- new step");
  EXPECT_EQ(publish(without_exchange(EINVAL)), "");
  EXPECT_EQ(state(), "new - -");
}

// A power cut may give the name back to the old folder, so neither may lose its content.
TEST_F(PublishTest, AFailedFlushIsAnErrorAndRemovesNothing) {
  const auto sync = [](const std::string&) { return failed("cannot flush"); };
  PublishCalls calls;
  calls.sync = sync;
  EXPECT_EQ(publish(calls), "cannot flush");
  EXPECT_EQ(state(), "new step -");
  reset();
  calls = without_exchange(EINVAL);
  calls.sync = sync;
  EXPECT_EQ(publish(calls), "cannot flush");
  EXPECT_EQ(state(), "new - step");
}

TEST(Paths, HaveParents) {
  EXPECT_EQ(replaced_name("a/b/"), "a/.b.replaced");
  EXPECT_EQ(replaced_name("b"), "./.b.replaced");
  EXPECT_EQ(parent_of("a/b/"), "a");
  EXPECT_EQ(parent_of("a//b"), "a");
  EXPECT_EQ(parent_of("a"), ".");
  EXPECT_EQ(parent_of("/a"), "/");
  EXPECT_EQ(parent_of("/"), "/");
  EXPECT_EQ(without_trailing_slash("a//"), "a");
  EXPECT_EQ(without_trailing_slash("//"), "/");
}

// The value that `xxhsum -H2` prints.
TEST(ChecksumTest, IsXxh3With128Bits) {
  EXPECT_EQ(Checksum().hex(), "99aa06d3014798d86001c324468d497f");
  Checksum pieces;
  pieces.add(bytes_of("a")).add(bytes_of("bc"));
  EXPECT_EQ(pieces.hex(), Checksum().add(bytes_of("abc")).hex());
  EXPECT_EQ(pieces.hex(), "06b05ab6733a618578af5f94892f3950");
}

}  // namespace
}  // namespace scalai::store
