#include "labs/near/supervise.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "ptc/base/process.h"

namespace scalai::near {
namespace supervise_test {

// A program that supervises `work`, which writes a byte when it is under way; how it ends after `signals`.
int end_of(const std::function<int(int said)>& work, const std::vector<int>& signals) {
  std::array<int, 2> said{};
  EXPECT_EQ(::pipe(said.data()), 0);
  const pid_t program = ::fork();
  if (program == 0) {
    ::close(said[0]);
    const WorkEnd end = supervise([&] { return work(said[1]); });
    ::_exit(end_as(end));
  }
  ::close(said[1]);
  char byte = 0;
  EXPECT_EQ(::read(said[0], &byte, 1), 1);
  for (const int number : signals) ::kill(program, number);
  int status = 0;
  EXPECT_EQ(::waitpid(program, &status, 0), program);
  EXPECT_EQ(::read(said[0], &byte, 1), 0) << "a process of it is still there";
  ::close(said[0]);
  return status;
}

int waits(int said) {
  (void)!::write(said, "x", 1);
  for (;;) ::pause();
}

TEST(Supervise, TheCodeIsThatOfTheWork) {
  const auto work = [](int said) {
    (void)!::write(said, "x", 1);
    return 7;
  };
  const int status = end_of(work, {});
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Supervise, EndsByTheSignalThatItGets) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    const int status = end_of(waits, {number});
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), number);
  }
}

TEST(Supervise, EndsByTheSignalOfTheWork) {
  const int status = end_of(
      [](int said) {
        (void)!::write(said, "x", 1);
        ::kill(::getpid(), SIGKILL);
        return 0;
      },
      {});
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(Supervise, AnIgnoredSignalCountsForNobody) {
  ::signal(SIGHUP, SIG_IGN);
  const int status = end_of(waits, {SIGHUP, SIGTERM});
  ::signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

// A command in the same group, and one below it. Each holds the pipe.
TEST(Supervise, WhatTheWorkStartedEnds) {
  const auto work = [](int said) {
    const auto pid = spawn({.program = "sh", .words = {"sh", "-c", "sleep 1000 & sleep 1000 & wait"}});
    return pid.ok() ? waits(said) : 1;
  };
  EXPECT_EQ(WTERMSIG(end_of(work, {SIGTERM})), SIGTERM);
  // One that does not listen: a second signal kills it.
  const auto deaf = [](int said) {
    const auto pid = spawn({.program = "sh",
                            .words = {"sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"},
                            .ends = {SpawnOptions::kNull, said, SpawnOptions::kInherit}});
    if (!pid.ok()) return 1;
    for (;;) ::pause();
  };
  EXPECT_EQ(WTERMSIG(end_of(deaf, {SIGINT, SIGTERM})), SIGINT);
}

// The work does not outlive its supervisor.
TEST(Supervise, TheWorkDiesWithIt) { EXPECT_EQ(WTERMSIG(end_of(waits, {SIGKILL})), SIGKILL); }

}  // namespace supervise_test
}  // namespace scalai::near
