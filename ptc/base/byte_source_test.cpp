#include "ptc/base/byte_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ptc/base/status.h"

namespace scalai {
namespace {

using testing::HasSubstr;

class ByteSourceTest : public testing::Test {
 protected:
  ByteSourceTest() {
    std::string pattern = testing::TempDir() + "scalai-bytes-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    write("0123456789");
  }
  ~ByteSourceTest() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/bytes"; }
  void write(const std::string& text) const { std::ofstream(path()) << text; }

  std::string folder_;
};

std::string read(const ByteSource& source, int64_t offset, size_t bytes) {
  std::string text(bytes, '?');
  const absl::Status status = source.read(offset, std::as_writable_bytes(std::span(text)));
  return status.ok() ? text : message_of(status);
}

TEST_F(ByteSourceTest, ReadsAnywhere) {
  const absl::StatusOr<ByteSourcePtr> source = open_file_source(path());
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->size(), 10);
  EXPECT_EQ((*source)->name(), path());
  EXPECT_EQ(read(**source, 3, 4), "3456");
  EXPECT_EQ(read(**source, 10, 0), "");
  EXPECT_EQ(*read_all(**source), "0123456789");
}

TEST_F(ByteSourceTest, ARemovedFileCanStillBeRead) {
  const absl::StatusOr<ByteSourcePtr> source = open_file_source(path());
  std::filesystem::remove(path());
  EXPECT_EQ(read(**source, 0, 10), "0123456789");
}

TEST_F(ByteSourceTest, ACutOrChangedFileIsAnErrorAndNotOtherBytes) {
  const absl::StatusOr<ByteSourcePtr> cut = open_file_source(path());
  std::filesystem::resize_file(path(), 5);
  EXPECT_THAT(read(**cut, 0, 10), HasSubstr("was cut to 5 of its 10 bytes"));
  EXPECT_THAT(read(**cut, 0, 2), HasSubstr("was cut"));

  write("abcdefghij");
  const absl::StatusOr<ByteSourcePtr> changed = open_file_source(path());
  write("ABCDEFGHIJ");
  const timespec later[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {.tv_sec = 2'000'000'000, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path().c_str(), later, 0), 0);
  EXPECT_THAT(read(**changed, 0, 10), HasSubstr("was changed while in use"));
}

// Other bytes of the same size, under the times of before.
TEST_F(ByteSourceTest, AChangeWhoseTimeIsSetBackIsAnError) {
  const absl::StatusOr<ByteSourcePtr> source = open_file_source(path());
  struct stat before = {};
  ASSERT_EQ(::stat(path().c_str(), &before), 0);
  EXPECT_EQ(read(**source, 0, 10), "0123456789");
  ::usleep(20'000);  // a tick of the clock that the file system stamps with
  write("9876543210");
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path().c_str(), times, 0), 0);
  EXPECT_THAT(read(**source, 0, 10), HasSubstr("was changed while in use"));
  EXPECT_THAT(message_of((*source)->confirm()), HasSubstr("was changed while in use"));
}

TEST_F(ByteSourceTest, ALinkChangesNothing) {
  const absl::StatusOr<ByteSourcePtr> source = open_file_source(path());
  ::usleep(20'000);
  std::filesystem::create_hard_link(path(), folder_ + "/other");
  EXPECT_EQ(read(**source, 0, 10), "0123456789");
  EXPECT_TRUE((*source)->confirm().ok());
  ::usleep(20'000);
  std::filesystem::permissions(path(), std::filesystem::perms::owner_read);  // the links are those of before
  EXPECT_THAT(read(**source, 0, 10), HasSubstr("was changed while in use"));
}

TEST_F(ByteSourceTest, AnotherFileUnderTheNameIsNotConfirmed) {
  const absl::StatusOr<ByteSourcePtr> source = open_file_source(path());
  EXPECT_TRUE((*source)->confirm().ok());
  std::filesystem::remove(path());
  EXPECT_TRUE((*source)->confirm().ok());
  write("abcdefghij");
  EXPECT_EQ(read(**source, 0, 10), "0123456789");
  EXPECT_THAT(message_of((*source)->confirm()), HasSubstr("was replaced by another file"));
}

TEST_F(ByteSourceTest, AnotherContentHasAnotherVersionWhateverItsTimes) {
  struct stat before = {};
  ASSERT_EQ(::stat(path().c_str(), &before), 0);
  const std::string first = (*open_file_source(path()))->version();
  EXPECT_EQ((*open_file_source(path()))->version(), first);
  ::usleep(20'000);  // a tick of the clock that the file system stamps with
  write("9876543210");
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path().c_str(), times, 0), 0);
  EXPECT_NE((*open_file_source(path()))->version(), first);
}

TEST_F(ByteSourceTest, WhatIsNoFileIsMissing) {
  EXPECT_TRUE(absl::IsNotFound(open_file_source(folder_).status()));
  EXPECT_TRUE(absl::IsNotFound(open_file_source(folder_ + "/no").status()));
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsNotFound(open_file_source(folder_ + "/pipe").status()));  // and does not wait for a writer
}

TEST(TextSource, HasItsBytes) {
  const ByteSourcePtr source = text_source("words", "one two");
  EXPECT_EQ(source->name(), "words");
  EXPECT_EQ(*read_all(*source), "one two");
  std::string part(3, ' ');
  ASSERT_TRUE(source->read(4, std::as_writable_bytes(std::span(part))).ok());
  EXPECT_EQ(part, "two");
}

}  // namespace
}  // namespace scalai
