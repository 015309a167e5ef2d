#include "ptc/base/destination.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kStranger = 65534, kUser = 65533;

// `open_` is a folder as /tmp, of root; `own_` one of this user, beside it.
class StrangersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of another user";
    std::string pattern = testing::TempDir() + "scalai-strangers-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    open_ = folder_ + "/open";
    own_ = folder_ + "/own";
    ASSERT_TRUE(make_folders(open_).ok() && make_folders(own_).ok());
    ASSERT_EQ(::chmod(folder_.c_str(), 0755) + ::chmod(open_.c_str(), 01777), 0);
    ASSERT_TRUE(write_file(own_ + "/secret", "old").ok());
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  void link(const std::string& target, const std::string& path, uid_t owner) const {
    ASSERT_EQ(::symlink(target.c_str(), path.c_str()) + ::lchown(path.c_str(), owner, owner), 0);
  }
  void expect_refused(const absl::Status& status, const std::string& what) const {
    EXPECT_EQ(exit_code_of(status), 4) << status;
    EXPECT_THAT(message_of(status), HasSubstr(what + " belongs to another user"));
    EXPECT_EQ(*read_file(own_ + "/secret"), "old");
  }

  std::string folder_, open_, own_;
};

TEST_F(StrangersTest, TheirLinksAreNotFollowed) {
  link(own_ + "/secret", open_ + "/report.json", kStranger);
  expect_refused(write_file(open_ + "/report.json", "new"), open_ + "/report.json: this link");
  expect_refused(TemporaryFile::create(open_ + "/report.json").status(), "this link");
  // A link in the middle of the way, from wherever one goes, and behind a link of one's own.
  link(own_, open_ + "/folder", kStranger);
  expect_refused(write_file(open_ + "/folder/secret", "new"), open_ + "/folder: this link");
  expect_refused(make_folders(open_ + "/folder/more"), open_ + "/folder: this link");
  link(open_ + "/folder/secret", own_ + "/link", 0);
  expect_refused(write_file(own_ + "/link", "new"), open_ + "/folder: this link");
  EXPECT_FALSE(std::filesystem::exists(own_ + "/more"));
}

TEST_F(StrangersTest, LinksOfThisUserAndOfTheFoldersOwnerAre) {
  link(own_ + "/secret", open_ + "/mine", 0);
  EXPECT_TRUE(write_file(open_ + "/mine", "new").ok());
  EXPECT_EQ(*read_file(own_ + "/secret"), "new");
  // Elsewhere only those can make links who may write there.
  link(own_ + "/secret", own_ + "/theirs", kStranger);
  EXPECT_TRUE(write_file(own_ + "/theirs", "newer").ok());
  // The kernel's rule: the owner of the folder could do worse.
  ASSERT_EQ(::chown(open_.c_str(), kStranger, kStranger), 0);
  link(own_ + "/secret", open_ + "/owners", kStranger);
  EXPECT_TRUE(write_file(open_ + "/owners", "newest").ok());
  EXPECT_EQ(*read_file(own_ + "/secret"), "newest");
}

TEST_F(StrangersTest, TheirFifosGetNothing) {
  const std::string fifo = open_ + "/report.json";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0666) + ::chown(fifo.c_str(), kStranger, kStranger), 0);
  const FileDescriptor reader(::open(fifo.c_str(), O_RDWR | O_NONBLOCK));
  expect_refused(write_file(fifo, "for me only"), fifo + ": this FIFO");
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), -1);
  ASSERT_EQ(::chown(fifo.c_str(), 0, 0), 0);
  EXPECT_TRUE(write_file(fifo, "x").ok());
  EXPECT_EQ(::read(reader.get(), &byte, 1), 1);
}

// A file that somebody made in advance, for all to write, is replaced; its permissions are not taken over.
TEST_F(StrangersTest, TheirPermissionsAreNotTakenOver) {
  const std::string path = open_ + "/report.json";
  ASSERT_TRUE(write_file(path, "trap").ok());
  ASSERT_EQ(::chmod(path.c_str(), 0666) + ::chown(path.c_str(), kStranger, kStranger), 0);
  ASSERT_TRUE(write_file(path, "ours").ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0u);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
}

// What stands at the end of the way when the file is moved into place does not matter: the folder is the one of the
// start.
TEST_F(StrangersTest, AWayThatChangesMeanwhileLeadsNowhereElse) {
  ASSERT_TRUE(make_folders(open_ + "/sub").ok());
  auto file = TemporaryFile::create(open_ + "/sub/secret");
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::rename(open_ + "/sub", open_ + "/moved");
  link(own_, open_ + "/sub", kStranger);
  ASSERT_TRUE(file->write(0, "new").ok());
  ASSERT_TRUE(file->publish().ok());
  EXPECT_EQ(*read_file(own_ + "/secret"), "old");
  EXPECT_EQ(*read_file(open_ + "/moved/secret"), "new");
}

// The same for a user without privileges, whom another one without privileges attacks.
TEST_F(StrangersTest, UsersAreProtectedFromEachOther) {
  ASSERT_EQ(::chown((own_ + "/secret").c_str(), kUser, kUser) + ::chown(own_.c_str(), kUser, kUser), 0);
  link(own_ + "/secret", open_ + "/theirs", kStranger);
  link(own_ + "/secret", open_ + "/mine", kUser);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::setresgid(kUser, kUser, kUser) != 0 || ::setresuid(kUser, kUser, kUser) != 0) ::_exit(100);
    const bool refused = absl::IsPermissionDenied(write_file(open_ + "/theirs", "new"));
    const bool written = write_file(open_ + "/mine", "mine").ok();
    ::_exit((refused ? 0 : 1) + (written ? 0 : 2));
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
  EXPECT_EQ(*read_file(own_ + "/secret"), "mine");
}

TEST(Destination, OfRelativeNames) {
  std::string pattern = testing::TempDir() + "scalai-way-XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  EXPECT_TRUE(make_folders("a//b/").ok());
  for (const std::string name : {"f", "./f", "a/b/../../f", "a/./f", "/proc/self/cwd/f"}) {
    const auto found = destination_of(name);
    ASSERT_TRUE(found.ok()) << name << ": " << found.status();
    EXPECT_EQ(found->name, "f");
    EXPECT_FALSE(found->through);
  }
  EXPECT_EQ(destination_of("a/./f")->path, "a/f");
  EXPECT_TRUE(destination_of("/proc/self/fd/0")->through);
  for (const std::string name : {"a", "a/", ".", "..", "/"})
    EXPECT_THAT(message_of(destination_of(name).status()), HasSubstr("is a directory, not a file")) << name;
  for (const std::string name : {"", "none/", "none/f"}) EXPECT_TRUE(absl::IsNotFound(destination_of(name).status()));
  EXPECT_TRUE(write_file("f", "x").ok());
  EXPECT_EQ(message_of(destination_of("f/g").status()), "f/g: cannot create: Not a directory");
  EXPECT_EQ(message_of(destination_of("f/").status()), "f/: cannot create: Not a directory");
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace scalai
