#include "ptc/checkpoint/safetensors/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/checkpoint/safetensors/checksum.h"
#include "ptc/checkpoint/safetensors/testing/test_job.h"

namespace scalai::checkpoint {
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

TEST(Paths, HaveParents) {
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
}  // namespace scalai::checkpoint
