#include "ptc/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

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
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }

  std::string folder_;
};

TEST_F(FileTest, ReadsBackWhatItWrote) {
  std::string bytes("a\0b\n\xff", 5);
  bytes += std::string(200'000, 'x');
  for (const std::string& content : {std::string(), bytes, std::string("short")}) {
    ASSERT_TRUE(write_file(path("f"), content).ok());
    EXPECT_EQ(*read_file(path("f")), content);
    EXPECT_EQ(names(), std::vector<std::string>{"f"});
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
            path("no/such/f") + ": cannot create: No such file or directory");
  ASSERT_TRUE(make_folders(path("taken/inner")).ok());
  EXPECT_EQ(message_of(write_file(path("taken"), "x")), path("taken") + ": is a directory, not a file");
  EXPECT_TRUE(std::filesystem::is_directory(path("taken/inner")));
  EXPECT_EQ(names(), std::vector<std::string>{"taken"});
}

TEST_F(FileTest, WhatIsNoFileGetsTheBytesAndStays) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const int reader = ::open(path("fifo").c_str(), O_RDWR | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(write_file(path("fifo"), "through").ok());
  std::string bytes(16, '\0');
  EXPECT_EQ(::read(reader, bytes.data(), bytes.size()), 7);
  EXPECT_EQ(bytes.substr(0, 7), "through");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(path("fifo")));
  EXPECT_EQ(message_of(TemporaryFile::create(path("fifo")).status()),
            path("fifo") + ": is no regular file, and only such a one can be replaced");
}

// As with --out=/dev/stdout > f: what others have open is not replaced under them.
TEST_F(FileTest, AnOpenFileIsWrittenTo) {
  const int file = ::open(path("f").c_str(), O_RDWR | O_CREAT | O_APPEND, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::write(file, "head ", 5), 5);
  ASSERT_EQ(::symlink(fmt::format("/proc/self/fd/{}", file).c_str(), path("link").c_str()), 0);
  EXPECT_TRUE(write_file(path("link"), "tail").ok());
  struct stat info {};
  ASSERT_EQ(::fstat(file, &info), 0);
  EXPECT_EQ(info.st_nlink, 1u);
  EXPECT_EQ(*read_file(path("f")), "head tail");
  ::close(file);
}

TEST_F(FileTest, LinksStayAndTheirTargetIsReplaced) {
  ASSERT_TRUE(make_folders(path("far")).ok());
  ASSERT_EQ(::symlink("far/target", path("link").c_str()), 0);
  for (const std::string text : {"new", "newer"}) {  // the link dangles at first
    EXPECT_TRUE(write_file(path("link"), text).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
    EXPECT_EQ(*read_file(path("far/target")), text);
  }
  ASSERT_EQ(::symlink("loop", path("loop").c_str()), 0);
  EXPECT_EQ(message_of(write_file(path("loop"), "x")), path("loop") + ": too many symbolic links");
}

TEST_F(FileTest, NamesOfOthersAreNotWrittenThrough) {
  ASSERT_TRUE(write_file(path("victim"), "theirs").ok());
  ASSERT_EQ(::symlink("victim", path("f.tmp").c_str()), 0);
  ASSERT_TRUE(write_file(path("f"), "ours").ok());
  EXPECT_EQ(*read_file(path("victim")), "theirs");
  EXPECT_TRUE(std::filesystem::is_symlink(path("f.tmp")));
}

TEST_F(FileTest, PermissionsStay) {
  ASSERT_TRUE(write_file(path("f"), "secret").ok());
  ASSERT_EQ(::chmod(path("f").c_str(), 0600), 0);
  ASSERT_TRUE(write_file(path("f"), "more secret").ok());
  struct stat info {};
  ASSERT_EQ(::stat(path("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

// No name, and a working folder that is gone: for whoever opens it to say.
TEST_F(FileTest, WhatHasNoAbsolutePathStaysAsItIs) {
  EXPECT_EQ(absolute_path(""), "");
  const std::filesystem::path before = std::filesystem::current_path();
  const std::filesystem::path gone = std::filesystem::path(folder_) / "gone";
  std::filesystem::create_directory(gone);
  std::filesystem::current_path(gone);
  std::filesystem::remove(gone);
  EXPECT_EQ(absolute_path("a/../b/"), "b");
  std::filesystem::current_path(before);
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
