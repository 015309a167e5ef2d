#include "executor/rpc/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::executor::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kPatience_s = 60;

class ProcessTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }
  ProcessOptions shell(const std::string& script) const {
    return {.binary = "/bin/sh", .arguments = {"sh", "-c", script}, .log_file = log_};
  }
  std::string run(const std::string& script) {
    auto process = Process::start(shell(script));
    EXPECT_TRUE(process.ok()) << process.status();
    const std::optional<ProcessEnd> end = process->wait(kPatience_s);
    return end.has_value() ? end->str() : "still running";
  }
  std::string logged() const { return read_file(log_).value_or("no log"); }

  const std::string folder_ = [] {
    std::string folder = ::testing::TempDir() + fmt::format("process-{}", ::getpid());
    EXPECT_TRUE(make_folders(folder).ok());
    return folder;
  }();
  const std::string log_ = folder_ + "/log";
};

TEST_F(ProcessTest, EndsAreSaidInWords) {
  EXPECT_EQ(run("exit 0"), "exit code 0");
  EXPECT_EQ(run("exit 3"), "exit code 3");
  EXPECT_EQ(run("kill -TERM $$"), "killed by signal 15 (Terminated)");
}

TEST_F(ProcessTest, BothStreamsGoToTheLogAndItIsAppendedTo) {
  run("echo out; echo err >&2");
  run("echo more; cat");
  EXPECT_EQ(logged(), "out\nerr\nmore\n");
}

TEST_F(ProcessTest, TheEnvironmentIsOursPlusWhatIsGiven) {
  ::setenv("SCALAI_TEST_OURS", "ours", 1);
  ::setenv("SCALAI_TEST_BOTH", "old", 1);
  ProcessOptions options = shell("echo $SCALAI_TEST_OURS $SCALAI_TEST_BOTH $SCALAI_TEST_NEW");
  options.environment = {{"SCALAI_TEST_BOTH", "replaced"}, {"SCALAI_TEST_NEW", "a=b"}};
  ASSERT_TRUE(Process::start(options)->wait(kPatience_s).has_value());
  EXPECT_EQ(logged(), "ours replaced a=b\n");
}

TEST_F(ProcessTest, ItHasNoDescriptorOfOursAndItsOwnSession) {
  const int leaky = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GT(leaky, 2);
  run(fmt::format("test -e /proc/self/fd/{} && echo leaked; cut -d' ' -f6 /proc/$$/stat; echo $$", leaky));
  ::close(leaky);
  const std::string text = logged();
  EXPECT_EQ(text.find("leaked"), std::string::npos);
  const size_t end_of_line = text.find('\n');
  EXPECT_EQ(text.substr(0, end_of_line + 1), text.substr(end_of_line + 1)) << "session differs from pid";
}

TEST_F(ProcessTest, SignalsAreAtTheirDefaults) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::string end = run("kill -PIPE $$");
  ::signal(SIGPIPE, SIG_DFL);
  EXPECT_THAT(end, HasSubstr("signal 13"));
}

TEST_F(ProcessTest, AKilledOneIsReapedOnce) {
  auto process = Process::start(shell("sleep 600"));
  ASSERT_TRUE(process.ok());
  EXPECT_FALSE(process->wait(0.01).has_value());
  pollfd watched{.fd = process->pidfd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&watched, 1, 0), 0);
  EXPECT_TRUE(process->kill().ok());
  EXPECT_EQ(process->wait(kPatience_s)->str(), "killed by signal 9 (Killed)");
  EXPECT_EQ(process->poll()->signal, SIGKILL) << "its end is remembered";
  EXPECT_TRUE(process->kill().ok()) << "killing a dead one is fine";
  EXPECT_EQ(::waitpid(process->pid(), nullptr, WNOHANG), -1) << "a zombie is left";
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(ProcessTest, WhatCannotStartIsNamed) {
  const absl::Status no_binary = Process::start({.binary = "/no/such/binary", .arguments = {"x"}}).status();
  EXPECT_TRUE(absl::IsNotFound(no_binary));
  EXPECT_THAT(message_of(no_binary), HasSubstr("/no/such/binary"));
  ProcessOptions options = shell("true");
  options.log_file = folder_ + "/no/such/folder/log";
  EXPECT_THAT(message_of(Process::start(options).status()), HasSubstr("/no/such/folder/log"));
}

TEST_F(ProcessTest, ASpawnerKeepsOneWorkerAHost) {
  Spawner spawner(folder_ + "/logs");
  ASSERT_TRUE(spawner.start(0, shell("echo zero; exit 5")).ok());
  ASSERT_TRUE(spawner.start(1, shell("sleep 600")).ok());
  EXPECT_EQ(spawner.start(1, shell("true")).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_GT(spawner.pid(1), 0);
  EXPECT_EQ(spawner.wait(0, kPatience_s)->code, 5);
  EXPECT_EQ(spawner.pid(0), -1);
  EXPECT_EQ(read_file(spawner.log_file(0)).value(), "zero\n");
  EXPECT_TRUE(spawner.reap().empty());
  EXPECT_FALSE(spawner.wait(1, 0).has_value());
  EXPECT_TRUE(spawner.kill(1).ok());
  EXPECT_TRUE(absl::IsNotFound(spawner.kill(2)));
  ASSERT_TRUE(spawner.wait(1, kPatience_s).has_value());
  EXPECT_TRUE(spawner.start(1, shell("true")).ok()) << "the place is free again";
  spawner.end_all(kPatience_s);
}

TEST_F(ProcessTest, EndingAllKillsWhoeverStays) {
  Spawner spawner(folder_ + "/logs");
  ASSERT_TRUE(spawner.start(0, shell("sleep 600")).ok());
  ASSERT_TRUE(spawner.start(1, shell("trap '' TERM; sleep 600")).ok());
  std::vector<std::string> ends;
  for (const auto& [host, end] : spawner.end_all(0)) ends.push_back(fmt::format("{}: {}", host, end.str()));
  EXPECT_THAT(ends, ElementsAre("0: killed by signal 9 (Killed)", "1: killed by signal 9 (Killed)"));
  EXPECT_EQ(spawner.pid(0), -1);
}

}  // namespace
}  // namespace scalai::executor::rpc
