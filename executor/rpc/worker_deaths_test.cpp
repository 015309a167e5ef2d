#include "executor/rpc/worker_deaths.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/scratch_folder.h"

namespace scalai::executor::rpc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class WorkerDeathsTest : public ::testing::Test {
 protected:
  void start(int32_t number, const std::string& command) {
    ASSERT_TRUE(spawner_.start(number, {.binary = "/bin/sh", .arguments = {"sh", "-c", command}}).ok());
  }
  std::string file(const std::string& name) const { return scratch_.path() + "/" + name; }
  void write(const std::string& name, const std::string& text) const { ASSERT_TRUE(write_file(file(name), text).ok()); }

  const ScratchFolder scratch_{"scalai-deaths"};
  Spawner spawner_{file("logs")};
};

TEST_F(WorkerDeathsTest, SignalExitCodeAndTheLogsEndAreTold) {
  WorkerDeaths deaths(spawner_, {});
  start(0, "echo a line of before; echo 'terminate called' >&2; printf '\\033[2Jwhat(): bad\\n'; exit 3");
  EXPECT_EQ(deaths.why(0), "exit code 3; " + spawner_.log_file(0) +
                               " ends with: a line of before | terminate called | ?[2Jwhat(): bad");
  EXPECT_EQ(deaths.why(0), deaths.why(0)) << "it is remembered";
  start(1, "kill -SEGV $$");
  EXPECT_EQ(deaths.why(1), "killed by signal 11 (Segmentation fault); " + spawner_.log_file(1) + " is empty");
  deaths.forget(1);
  EXPECT_EQ(deaths.why(1), "") << "nothing is known about another one";
}

// Who asks for all has them told as well, and both have the same.
TEST_F(WorkerDeathsTest, OneThatWasReapedIsKnown) {
  WorkerDeaths deaths(spawner_, {});
  start(0, "exit 4");
  std::vector<std::pair<int32_t, std::string>> ended;
  while (ended.empty()) ended = deaths.ended();
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_THAT(ended[0].second, StartsWith("exit code 4; "));
  EXPECT_EQ(deaths.why(0), ended[0].second);
}

TEST_F(WorkerDeathsTest, AProcessThatHasNotEndedIsNamed) {
  WorkerDeaths deaths(spawner_, {});
  start(0, "exec sleep 600");
  EXPECT_EQ(deaths.why(0), fmt::format("its process {} has not ended", spawner_.pid(0)));
  spawner_.end_all(0);
}

TEST_F(WorkerDeathsTest, AKillByTheKernelForMemoryIsTold) {
  write("memory.events", "low 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 0\n");
  WorkerDeaths deaths(spawner_, {.counter = file("memory.events"), .log = file("kmsg")});
  start(0, "kill -KILL $$");
  EXPECT_THAT(deaths.why(0), AllOf(StartsWith("killed by signal 9 (Killed); "), Not(HasSubstr("memory and")))) << "old";
  write("memory.events", "oom_kill 2\n");
  start(1, "exit 9");
  EXPECT_THAT(deaths.why(1), Not(HasSubstr("kernel"))) << "it ended by itself";
  start(2, "kill -KILL $$");
  EXPECT_THAT(deaths.why(2), HasSubstr("the kernel was out of memory and killed a process of its control group"));
  start(3, "kill -KILL $$");
  EXPECT_THAT(deaths.why(3), Not(HasSubstr("kernel"))) << "one kill is one process's";
  start(4, "kill -KILL $$");
  write("kmsg", fmt::format("4,7,8,-;oom-kill:constraint=CONSTRAINT_MEMCG\n3,8,9,-;Memory cgroup out of memory: Killed "
                            "process {} (scalai-exec) total-vm:9kB\n",
                            spawner_.pid(4)));
  EXPECT_THAT(deaths.why(4),
              HasSubstr(fmt::format("the kernel was out of memory: Memory cgroup out of memory: Killed process ")));
}

TEST_F(WorkerDeathsTest, OfALongLogTheEndIsTold) {
  write("log", std::string(100'000, 'x') + "\n" + std::string(300, 'y') + " the last word\n\n");
  const std::string end = end_of_log(file("log"), 40);
  EXPECT_THAT(end, AllOf(StartsWith("…"), HasSubstr(" the last word")));
  EXPECT_EQ(end_of_log(file("absent"), 40), "");
  write("log", "");
  EXPECT_EQ(end_of_log(file("log"), 40), "");
}

// Wherever this runs, it does not fail.
TEST(OomWatch, OfThisProcess) { EXPECT_EQ(OomWatch().killed(::getpid()), ""); }

}  // namespace
}  // namespace scalai::executor::rpc
