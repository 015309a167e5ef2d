#include "executor/state/available_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "ptc/base/file.h"

namespace scalai::executor::state::internal {
namespace {

// A made-up root folder.
class Machine : public testing::Test {
 protected:
  Machine() : root_(testing::TempDir() + "/scalai_available_memory") { std::filesystem::remove_all(root_); }
  ~Machine() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    const std::string file = root_ + path;
    ASSERT_TRUE(make_folders(std::filesystem::path(file).parent_path().string()).ok());
    ASSERT_TRUE(write_file(file, text).ok());
  }
  std::string root_;
};

TEST_F(Machine, WhatTheKernelSays) {
  put("/proc/meminfo", "MemTotal:       24000 kB\nMemAvailable:    1000 kB\nSwapFree: 5 kB\n");
  EXPECT_EQ(available_memory(root_), 1000 * 1024);
}

TEST_F(Machine, AGroupOfVersion2OrOneAboveIt) {
  put("/proc/meminfo", "MemAvailable:    100000 kB\n");
  put("/proc/self/cgroup", "0::/slurm/job7\n");
  put("/sys/fs/cgroup/slurm/memory.max", "5000000\n");
  put("/sys/fs/cgroup/slurm/memory.current", "4000000\n");
  put("/sys/fs/cgroup/slurm/memory.stat", "anon 1\ninactive_file 300000\n");
  put("/sys/fs/cgroup/slurm/job7/memory.max", "max\n");
  put("/sys/fs/cgroup/slurm/job7/memory.current", "3000000\n");
  EXPECT_EQ(available_memory(root_), 5000000 - 4000000 + 300000);
  put("/sys/fs/cgroup/slurm/job7/memory.max", "3200000\n");
  EXPECT_EQ(available_memory(root_), 200000);
  put("/sys/fs/cgroup/slurm/job7/memory.max", "2000000\n");
  EXPECT_EQ(available_memory(root_), 0);
}

TEST_F(Machine, AGroupOfVersion1) {
  put("/proc/meminfo", "MemAvailable:    100000 kB\n");
  put("/proc/self/cgroup", "9:cpu:/a\n8:memory:/a\n0::/\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "7000000\n");
  put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "6000000\n");
  put("/sys/fs/cgroup/memory/a/memory.stat", "cache 1\ninactive_file 5\ntotal_inactive_file 10\n");
  EXPECT_EQ(available_memory(root_), 1000010);
}

TEST_F(Machine, NonsenseDoesNotLimit) {
  put("/proc/meminfo", "MemAvailable: much\n");
  put("/proc/self/cgroup", "nonsense\n8:memory:relative\n::\n");
  EXPECT_GT(available_memory(root_), int64_t{1} << 50);
}

TEST(AvailableMemory, OfThisMachineIsPositive) {
  EXPECT_GT(available_memory(), 0);
  EXPECT_LT(available_memory(), int64_t{1} << 50);
}

}  // namespace
}  // namespace scalai::executor::state::internal
