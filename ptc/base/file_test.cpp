#include "ptc/base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "ptc/base/status.h"

namespace scalai {
namespace {

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string pattern = testing::TempDir() + "scalai-file-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(FileTest, ReadsBackWhatItWrote) {
  std::string bytes("a\0b\n\xff", 5);
  bytes += std::string(200'000, 'x');
  for (const std::string& content : {std::string(), bytes, std::string("short")}) {
    ASSERT_TRUE(write_file(path("f"), content).ok());
    EXPECT_EQ(*read_file(path("f")), content);
    EXPECT_FALSE(std::filesystem::exists(path("f.tmp")));
  }
}

TEST_F(FileTest, ReadErrorsNameTheFileAndExitWith4) {
  const absl::Status absent = read_file(path("absent")).status();
  EXPECT_EQ(message_of(absent), path("absent") + ": cannot open: No such file or directory");
  EXPECT_EQ(exit_code_of(absent), 4);
  EXPECT_EQ(message_of(read_file(folder_).status()), folder_ + ": is a directory, not a file");
}

TEST_F(FileTest, RefusesFilesLargerThanAllowed) {
  ASSERT_TRUE(write_file(path("f"), "12345").ok());
  EXPECT_EQ(*read_file(path("f"), 5), "12345");
  EXPECT_EQ(message_of(read_file(path("f"), 4).status()), path("f") + ": larger than the 4 bytes allowed here");
}

TEST_F(FileTest, RefusesUnreadableFiles) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads everything";
  ASSERT_TRUE(write_file(path("f"), "secret").ok());
  ASSERT_EQ(::chmod(path("f").c_str(), 0), 0);
  EXPECT_EQ(message_of(read_file(path("f")).status()), path("f") + ": cannot open: Permission denied");
}

TEST_F(FileTest, AFailedWriteLeavesTheOldFileAndNoRest) {
  EXPECT_EQ(message_of(write_file(path("no/such/f"), "x")),
            path("no/such/f.tmp") + ": cannot create: No such file or directory");
  ASSERT_TRUE(make_folders(path("taken/inner")).ok());
  EXPECT_EQ(message_of(write_file(path("taken"), "x")), path("taken") + ": cannot replace: Is a directory");
  EXPECT_TRUE(std::filesystem::is_directory(path("taken/inner")));
  EXPECT_FALSE(std::filesystem::exists(path("taken.tmp")));
}

TEST_F(FileTest, MakesFoldersWithParentsAgainAndAgain) {
  EXPECT_TRUE(make_folders(path("a/b/c")).ok());
  EXPECT_TRUE(make_folders(path("a/b/c")).ok());
  EXPECT_TRUE(std::filesystem::is_directory(path("a/b/c")));
  ASSERT_TRUE(write_file(path("file"), "x").ok());
  EXPECT_EQ(message_of(make_folders(path("file/below"))),
            path("file/below") + ": cannot create folder: Not a directory");
}

}  // namespace
}  // namespace scalai
