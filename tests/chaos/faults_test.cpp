#include "tests/chaos/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "executor/rpc/process.h"
#include "ptc/base/file.h"
#include "ptc/store/safetensors/testing/test_job.h"

namespace scalai::chaos {
namespace {

using executor::rpc::Process;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FaultsTest : public store::FolderTest {
 protected:
  // A process of the "run" in this folder.
  Process start(const std::string& script) const {
    auto process = Process::start({.binary = "/bin/sh",
                                   .arguments = {"sh", "-c", script},
                                   .environment = {{"SCALAI_CHAOS", path("")}},
                                   .log_file = path("log")});
    SCALAI_CHECK(process.ok());
    return *std::move(process);
  }
  static std::string state_of(pid_t pid) {
    const std::string status = read_file("/proc/" + std::to_string(pid) + "/status").value_or("");
    const size_t at = status.find("State:\t");
    return at == std::string::npos ? "" : status.substr(at + 7, 1);
  }
  static rlim_t limit_of(pid_t pid, __rlimit_resource what) {
    struct rlimit limit {};
    ::prlimit(pid, what, nullptr, &limit);
    return limit.rlim_cur;
  }
};

TEST_F(FaultsTest, ProcessesOfARunAreKnownByTheirMark) {
  Process one = start("exec sleep 60");
  // While the shell becomes another program, it shows no environment.
  for (int i = 0; i < 2000 && processes_of(path(""), Whose::kAll).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_THAT(processes_of(path(""), Whose::kAll), ElementsAre(one.pid()));
  EXPECT_THAT(processes_of(path(""), Whose::kWorkers), IsEmpty());
  EXPECT_THAT(processes_of(path("other"), Whose::kAll), IsEmpty());
  ASSERT_TRUE(one.kill().ok());
}

TEST_F(FaultsTest, WhatIsStoppedOrShortOfSomethingIsSoForAWhile) {
  Process one = start("exec sleep 60");
  const pid_t pid = one.pid();
  std::jthread stopping([&] { stop(pid, 0.3); });
  for (int i = 0; i < 2000 && state_of(pid) != "T"; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(state_of(pid), "T");
  stopping.join();
  for (int i = 0; i < 2000 && state_of(pid) == "T"; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_NE(state_of(pid), "T");
  slow_down(pid, 0.05);
  interrupt({pid}, 0.05);
  EXPECT_FALSE(one.poll());

  const rlim_t before = limit_of(pid, RLIMIT_NOFILE);
  std::jthread limiting([&] { limit_descriptors(pid, 2, 0.3); });
  for (int i = 0; i < 2000 && limit_of(pid, RLIMIT_NOFILE) == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(limit_of(pid, RLIMIT_NOFILE), 3U + 2U);
  limiting.join();
  EXPECT_EQ(limit_of(pid, RLIMIT_NOFILE), before);
  limit_addresses(pid, 1 << 20, 0.01);
  EXPECT_EQ(limit_of(pid, RLIMIT_AS), RLIM_INFINITY);
  ASSERT_TRUE(one.kill().ok());
}

TEST_F(FaultsTest, WithoutMemoryTheKernelKills) {
  if (!can_limit_memory()) GTEST_SKIP() << "no control groups of ours here";
  Process one = start("x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; sleep 0.02; done");
  limit_memory(one.pid(), "scalai-faults-test-" + std::to_string(::getpid()), 2);
  const auto end = one.wait(60);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->signal, SIGKILL);
}

TEST_F(FaultsTest, ADiskIsFullForAWhile) {
  for (const bool inodes : {false, true}) {
    const std::string disk = path(inodes ? "few" : "small");
    std::filesystem::create_directory(disk);
    if (::mount("chaos", disk.c_str(), "tmpfs", 0, "size=1m,nr_inodes=64") != 0) GTEST_SKIP() << "cannot mount here";
    const auto can_write = [&] {
      return std::ofstream(disk + "/new").write(std::string(100'000, 'x').data(), 100'000).flush().good();
    };
    EXPECT_TRUE(can_write());
    std::filesystem::remove(disk + "/new");
    std::atomic<bool> over = false;
    std::jthread filling([&] {
      fill_disk(disk, inodes, 0.5);
      over = true;
    });
    bool full = false;
    while (!full && !over) {
      struct statvfs space {};
      full = ::statvfs(disk.c_str(), &space) == 0 && (inodes ? space.f_ffree : space.f_bfree) == 0 && !can_write();
    }
    EXPECT_TRUE(full);
    filling.join();
    EXPECT_TRUE(can_write());
    ::umount2(disk.c_str(), MNT_DETACH);
  }
}

TEST_F(FaultsTest, StrangersComeToEveryPort) {
  const std::string python =
      "import socket, sys\n"
      "listener = socket.create_server((\"127.0.0.1\", 0))\n"
      "open(sys.argv[1], \"w\").close()\n"
      "listener.accept()";
  Process one = start("exec python3 -c '" + python + "' '" + path("listens") + "'");
  for (int i = 0; i < 20'000 && !std::filesystem::exists(path("listens")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int i = 0; i < 100 && !one.poll(); ++i) visit_ports(path(""), 1, 0.1);
  const auto end = one.poll();
  ASSERT_TRUE(end.has_value()) << "nobody came";
  EXPECT_TRUE(end->ok()) << end->str();
}

}  // namespace
}  // namespace scalai::chaos
