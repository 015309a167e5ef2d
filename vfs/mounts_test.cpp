#include "vfs/mounts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "ptc/base/status.h"

namespace scalai::vfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseMounts, ReadsWhatTheKernelWrites) {
  const auto mounts = parse_mounts(
      "22 27 0:21 / /proc rw,nosuid shared:13 - proc proc rw\n"
      "not a mount\n"
      "90 27 0:57 / /mnt/a\\040b\\134c ro,nosuid shared:1 master:2 - fuse.scalai scalai-fs ro,user_id=0\n"
      "91 27 8:1 / /data rw - ext4 /dev/sda1 rw\n"
      "92 27 8:1 / /half rw -\n");
  EXPECT_THAT(mounts, ElementsAre(MountPoint{"/proc", "proc", "0:21"}, MountPoint{"/mnt/a b\\c", "fuse.scalai", "0:57"},
                                  MountPoint{"/data", "ext4", "8:1"}));
  EXPECT_FALSE(mounts[0].ours());
  EXPECT_TRUE(mounts[1].ours());
}

TEST(MountAt, FindsWhatIsMountedExactlyThere) {
  const auto proc = mount_at("/proc");
  ASSERT_TRUE(proc.has_value());
  EXPECT_EQ(proc->type, "proc");
  EXPECT_FALSE(mount_at("/proc/self").has_value());
  EXPECT_FALSE(mount_at("").has_value());
}

TEST(MountDirectory, IsAbsoluteAndWithoutLinks) {
  std::string folder = fmt::format("{}/vfs-mounts-XXXXXX", ::testing::TempDir());
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  folder = std::filesystem::canonical(folder).string();
  std::filesystem::create_directory(folder + "/a");
  std::filesystem::create_directory_symlink(folder + "/a", folder + "/b");
  EXPECT_EQ(*mount_directory(folder + "/b/"), folder + "/a");
  EXPECT_EQ(*mount_directory(folder + "/b/../a//."), folder + "/a");
  EXPECT_EQ(*mount_directory("/"), "/");
  EXPECT_EQ(mount_directory(folder + "/c").status().code(), absl::StatusCode::kNotFound);
  std::filesystem::remove_all(folder);
}

TEST(Unmount, SaysWhatIsInTheWay) {
  EXPECT_FALSE(is_dead("/proc"));
  EXPECT_EQ(*clean_dead_mounts("/proc"), 0);
  const absl::Status nothing = unmount(::testing::TempDir(), /*force=*/false);
  EXPECT_FALSE(nothing.ok());
  EXPECT_THAT(message_of(nothing), HasSubstr(::testing::TempDir()));
}

}  // namespace
}  // namespace scalai::vfs
