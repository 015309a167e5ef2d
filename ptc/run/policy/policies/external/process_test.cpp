#include "ptc/run/policy/policies/external/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<LineProcess> start(const std::string& command) {
  auto process = LineProcess::start(command, "", "test: ");
  EXPECT_TRUE(process.ok()) << process.status();
  return std::move(*process);
}

// No child of ours is left, running or not.
void expect_no_children() {
  int status = 0;
  EXPECT_EQ(::waitpid(-1, &status, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(LineProcess, AnswersLineByLine) {
  auto process = start("while read line; do echo \"got $line\"; done");
  for (const std::string line : {"one", "two", "three"}) {
    const auto answer = process->ask(line, 10);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(*answer, "got " + line);
  }
  process.reset();
  expect_no_children();
}

// More than a pipe holds, both ways at once.
TEST(LineProcess, LongLinesPass) {
  auto process = start("exec cat");
  const std::string line(3 << 20, 'x');
  const auto answer = process->ask(line, 30);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(*answer == line);
}

TEST(LineProcess, NoAnswerInTime) {
  auto process = start("echo 'thinking' >&2; sleep 100");
  const auto answer = process->ask("x", 0.3);
  EXPECT_EQ(exit_code_of(answer.status()), 5);
  EXPECT_EQ(message_of(answer.status()), "it gave no answer within 0.3 s; its last line on stderr: thinking");
  process.reset();
  expect_no_children();
}

// It neither reads nor ends when asked to.
TEST(LineProcess, AStubbornProgramIsKilled) {
  auto process = start("trap '' TERM; while :; do sleep 0.05; done");
  EXPECT_FALSE(process->ask(std::string(1 << 20, 'x'), 0.2).ok());
  process.reset();
  expect_no_children();
}

// It fills stderr as fast as we read, with one line that never ends.
TEST(LineProcess, AFloodOnStderrEndsAtTheDeadline) {
  auto process = start("tr '\\0' x < /dev/zero >&2");
  const auto answer = process->ask("x", 0.3);
  EXPECT_THAT(message_of(answer.status()), ::testing::StartsWith("it gave no answer within 0.3 s"));
  ::testing::internal::CaptureStderr();
  process.reset();
  EXPECT_LE(::testing::internal::GetCapturedStderr().size(), (size_t{64} << 10) + 100) << "a line is cut";
  expect_no_children();
}

// Whether a process of this number runs: one that ended and that nobody has waited for does not.
bool runs(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat[name_end + 2] != 'Z';
}

TEST(LineProcess, WhatItLeavesBehindGoesToo) {
  auto process = start("sleep 321 & read line; echo $!; exec cat > /dev/null");
  const auto pid = process->ask("x", 10);
  ASSERT_TRUE(pid.ok()) << pid.status();
  EXPECT_TRUE(runs(*pid));
  process.reset();
  for (int wait = 0; wait < 500 && runs(*pid); ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(runs(*pid));
}

TEST(LineProcess, ADeadProgramIsDescribed) {
  auto process = start("read line; echo 'out of ideas' >&2; exit 3");
  auto answer = process->ask("x", 10);
  EXPECT_EQ(message_of(answer.status()), "it ended with exit code 3; its last line on stderr: out of ideas");
  answer = process->ask("x", 10);
  EXPECT_THAT(message_of(answer.status()), HasSubstr("had ended before")) << "no SIGPIPE either";
  auto killed = start("kill -9 $$");
  EXPECT_THAT(message_of(killed->ask("x", 10).status()), HasSubstr("ended by signal 9"));
  auto none = start("exec /no/such/program");
  EXPECT_THAT(message_of(none->ask("x", 10).status()), HasSubstr("ended with exit code 127"));
}

TEST(LineProcess, AnAnswerBeforeTheEndCounts) {
  auto process = start("echo last");
  const auto answer = process->ask("x", 10);
  // It may have been there before we asked, or have come after: never a hang, never a crash.
  if (!answer.ok()) {
    EXPECT_THAT(message_of(answer.status()), HasSubstr("without a request: last"));
  } else {
    EXPECT_EQ(*answer, "last");
  }
}

TEST(LineProcess, UnaskedLinesAreRefused) {
  auto process = start("read line; printf 'one\\ntwo\\n'; sleep 100");
  ASSERT_TRUE(process->ask("x", 10).ok());
  EXPECT_THAT(message_of(process->ask("x", 10).status()), HasSubstr("without a request: two"));
}

TEST(LineProcess, RunsInItsFolder) {
  auto process = LineProcess::start("read line; pwd", "/usr", "");
  ASSERT_TRUE(process.ok());
  EXPECT_EQ((*process)->ask("x", 10).value(), "/usr");
}

}  // namespace
}  // namespace scalai::policy
