#include "tests/crash/disk.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "tests/crash/states.h"

namespace scalai::crash {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// Operations by hand; each file has a number of its own.
class DiskTest : public testing::Test {
 protected:
  void apply(const Operation& operation) {
    const absl::Status status = disk_.apply(operation);
    ASSERT_TRUE(status.ok()) << status;
  }
  void make(const std::string& path, uint64_t inode) { apply({.kind = Kind::kMakeFile, .path = path, .inode = inode}); }
  void folder(const std::string& path, uint64_t inode) {
    apply({.kind = Kind::kMakeFolder, .path = path, .inode = inode});
  }
  void write(uint64_t inode, const std::string& data, int64_t offset = 0) {
    apply({.kind = Kind::kWrite, .inode = inode, .offset = offset, .data = data});
  }
  void resize(uint64_t inode, int64_t length) { apply({.kind = Kind::kResize, .inode = inode, .length = length}); }
  void sync(uint64_t inode) { apply({.kind = Kind::kSync, .inode = inode}); }
  void sync_root() { apply({.kind = Kind::kSync, .path = ".", .inode = 99}); }
  void rename(const std::string& from, const std::string& to) {
    apply({.kind = Kind::kRename, .path = from, .other = to});
  }
  void unlink(const std::string& path) { apply({.kind = Kind::kUnlink, .path = path}); }

  // Every state, as "path=content path=content", zeros as dots.
  std::set<std::string> states(int64_t wanted = 4096) const {
    std::set<std::string> found;
    Random random(1);
    const std::vector<Dimension> dimensions = disk_.dimensions();
    visit_choices(dimensions, wanted, random, [&](const Choice& choice) {
      std::string text;
      for (const auto& [path, entry] : disk_.tree(dimensions, choice).entries) {
        std::string bytes = entry.content ? entry.content->bytes : "/";
        std::replace(bytes.begin(), bytes.end(), '\0', '.');
        text += (text.empty() ? "" : " ") + path + "=" + bytes;
      }
      found.insert(text);
      return true;
    });
    return found;
  }

  Disk disk_;
};

TEST_F(DiskTest, AFileWithoutAFlushMayBeThereInAnyPart) {
  make("a", 1);
  write(1, "xyz");
  EXPECT_THAT(states(), UnorderedElementsAre("", "a=", "a=...", "a=xyz"));
}

// The file's name is its folder's, and needs that folder's flush.
TEST_F(DiskTest, AFlushOfAFileKeepsItsDataOnly) {
  make("a", 1);
  write(1, "xyz");
  sync(1);
  EXPECT_THAT(states(), UnorderedElementsAre("", "a=xyz"));
  sync_root();
  EXPECT_THAT(states(), ElementsAre("a=xyz"));
}

// What a careless publisher does: the new name comes to disk, the data does not.
TEST_F(DiskTest, ARenameWithoutAFlushLosesOldAndNew) {
  make("old", 1);
  write(1, "old");
  sync(1);
  sync_root();
  make("temporary", 2);
  write(2, "new");
  rename("temporary", "old");
  EXPECT_THAT(states(), Contains("old=..."));
  EXPECT_THAT(states(), Contains("old="));
}

TEST_F(DiskTest, AFlushBeforeTheRenameKeepsOldOrNew) {
  make("old", 1);
  write(1, "old");
  sync(1);
  sync_root();
  make("temporary", 2);
  write(2, "new");
  sync(2);
  rename("temporary", "old");
  EXPECT_THAT(states(), UnorderedElementsAre("old=old", "old=old temporary=new", "old=new"));
  sync_root();
  EXPECT_THAT(states(), ElementsAre("old=new"));
}

TEST_F(DiskTest, NamesOfOneFolderComeInAnyOrderThoseOfOneNameDoNot) {
  make("a", 1);
  make("b", 2);
  EXPECT_THAT(states(), UnorderedElementsAre("", "a=", "b=", "a= b="));
  sync_root();
  unlink("a");
  make("a", 3);
  write(3, "again");
  sync(3);
  EXPECT_THAT(states(), UnorderedElementsAre("a= b=", "b=", "a=again b="));
}

TEST_F(DiskTest, AFolderIsThereWithAnyOfItsNames) {
  folder("f", 5);
  make("f/a", 1);
  make("f/b", 2);
  EXPECT_THAT(states(), UnorderedElementsAre("", "f=/", "f=/ f/a=", "f=/ f/b=", "f=/ f/a= f/b="));
  sync_root();
  EXPECT_THAT(states(), Not(Contains("")));
  apply({.kind = Kind::kSync, .path = "f", .inode = 5});
  EXPECT_THAT(states(), ElementsAre("f=/ f/a= f/b="));
}

TEST_F(DiskTest, AFolderUnderAnotherNameNeedsBothFlushes) {
  folder("f", 5);
  make("f/a", 1);
  rename("f", "g");
  EXPECT_THAT(states(), UnorderedElementsAre("", "f=/", "f=/ f/a=", "g=/", "g=/ g/a="));
}

TEST_F(DiskTest, AnExchangeIsOneChange) {
  make("a", 1);
  make("b", 2);
  write(1, "1");
  write(2, "2");
  sync(1);
  sync(2);
  sync_root();
  apply({.kind = Kind::kExchange, .path = "a", .other = "b"});
  EXPECT_THAT(states(), UnorderedElementsAre("a=1 b=2", "a=2 b=1"));
}

TEST_F(DiskTest, NoWriteAfterAShrinkingIsThereWithoutIt) {
  make("a", 1);
  write(1, "long");
  sync(1);
  sync_root();
  resize(1, 0);
  write(1, "ne");
  EXPECT_THAT(states(), UnorderedElementsAre("a=long", "a=", "a=..", "a=ne"));
}

TEST_F(DiskTest, BlocksComeInAnyOrderEachAsAWholeOrTorn) {
  make("a", 1);
  write(1, std::string(2 * kBlockBytes, 'o'));
  sync(1);
  sync_root();
  write(1, std::string(2 * kBlockBytes, 'n'));
  std::set<std::string> kinds;
  for (const std::string& state : states()) {
    const std::string bytes = state.substr(2);
    ASSERT_EQ(bytes.size(), static_cast<size_t>(2 * kBlockBytes));
    std::string kind;
    for (size_t sector = 0; sector < 16; ++sector) {
      const std::string part = bytes.substr(sector * kSectorBytes, kSectorBytes);
      EXPECT_EQ(part, std::string(kSectorBytes, part[0]));  // sectors are whole
      kind += part[0];
    }
    kinds.insert(kind);
  }
  for (const char* kind : {"oooooooooooooooo", "nnnnnnnnoooooooo", "oooooooonnnnnnnn", "nnnnnnnnnnnnnnnn"})
    EXPECT_THAT(kinds, Contains(kind));
  EXPECT_GT(kinds.size(), 4u) << "no torn block";
}

// With changes by the hundred there is a choice of states; the extremes and each single loss are among them.
TEST_F(DiskTest, SamplesHaveTheExtremesAndEachSingleLoss) {
  std::string all;
  for (int i = 0; i < 20; ++i) {
    make(fmt::format("{:02}", i), static_cast<uint64_t>(i + 1));
    all += fmt::format("{}{:02}=", i == 0 ? "" : " ", i);
  }
  const std::set<std::string> some = states(1000);
  EXPECT_THAT(some, Contains(""));
  EXPECT_THAT(some, Contains(all));
  for (int i = 0; i < 20; ++i) {
    std::string without = all;
    without.erase(static_cast<size_t>(i == 0 ? 0 : 4 * i - 1), 4);
    EXPECT_THAT(some, Contains(without));
  }
  EXPECT_LT(some.size(), 3000u);
}

TEST_F(DiskTest, OperationsThatContradictEachOtherAreRefused) {
  EXPECT_FALSE(disk_.apply({.kind = Kind::kUnlink, .path = "a"}).ok());
  EXPECT_FALSE(disk_.apply({.kind = Kind::kWrite, .path = "a", .inode = 7, .data = "x"}).ok());
  EXPECT_FALSE(disk_.apply({.kind = Kind::kMakeFile, .path = "no/a", .inode = 7}).ok());
  EXPECT_FALSE(disk_.apply({.kind = Kind::kUnknown, .path = "a", .data = "mmap"}).ok());
}

}  // namespace
}  // namespace scalai::crash
