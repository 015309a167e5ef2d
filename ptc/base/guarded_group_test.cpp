#include "ptc/base/guarded_group.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "ptc/base/process.h"

namespace scalai {
namespace guarded_group_test {

bool is_there(pid_t pid) { return ::kill(pid, 0) == 0; }

// Whether the process has ended, for which it gets its time.
bool ends(pid_t pid) {
  for (int i = 0; i < 1000 && is_there(pid); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return !is_there(pid);
}

// sh, and a process that it starts; their pids, by a pipe.
struct Two {
  pid_t shell = -1, below = -1;
};
void start_two(const GuardedGroup& group, int to) {
  Two two;
  std::array<int, 2> said{};
  if (::pipe(said.data()) != 0) ::_exit(1);
  const auto pid = spawn({.program = "sh",
                          .words = {"sh", "-c", "sleep 1000 & echo $!; wait"},
                          .ends = {SpawnOptions::kNull, said[1], SpawnOptions::kInherit},
                          .group = SpawnOptions::Group::kGroup,
                          .joins = group.id(),
                          .close_others = true});
  if (!pid.ok()) ::_exit(2);
  two.shell = *pid;
  std::array<char, 32> text{};
  if (::read(said[0], text.data(), text.size() - 1) <= 0) ::_exit(3);
  two.below = static_cast<pid_t>(std::atoi(text.data()));
  if (::write(to, &two, sizeof(two)) != static_cast<ssize_t>(sizeof(two))) ::_exit(4);
}

TEST(GuardedGroup, DiesWithItsOwner) {
  std::array<int, 2> ends_of_pipe{};
  ASSERT_EQ(::pipe(ends_of_pipe.data()), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    const auto group = GuardedGroup::start();
    if (!group.ok()) ::_exit(5);
    start_two(*group, ends_of_pipe[1]);
    for (;;) ::pause();
  }
  Two two;
  ASSERT_EQ(::read(ends_of_pipe[0], &two, sizeof(two)), static_cast<ssize_t>(sizeof(two)));
  EXPECT_TRUE(is_there(two.shell));
  EXPECT_TRUE(is_there(two.below));
  ::kill(owner, SIGKILL);
  ASSERT_EQ(::waitpid(owner, nullptr, 0), owner);
  EXPECT_TRUE(ends(two.shell));
  EXPECT_TRUE(ends(two.below));
}

// What a command leaves behind goes on, as behind a shell; kill() takes it, too.
TEST(GuardedGroup, EndsItsGuardOnly) {
  std::array<int, 2> ends_of_pipe{};
  ASSERT_EQ(::pipe(ends_of_pipe.data()), 0);
  Two two;
  {
    const auto group = GuardedGroup::start();
    ASSERT_TRUE(group.ok()) << group.status();
    start_two(*group, ends_of_pipe[1]);
    ASSERT_EQ(::read(ends_of_pipe[0], &two, sizeof(two)), static_cast<ssize_t>(sizeof(two)));
  }
  EXPECT_TRUE(is_there(two.below));
  ::kill(two.below, SIGKILL);
  EXPECT_EQ(wait_for(two.shell), 0) << "sh waits for it";
  {
    auto group = GuardedGroup::start();
    ASSERT_TRUE(group.ok()) << group.status();
    start_two(*group, ends_of_pipe[1]);
    ASSERT_EQ(::read(ends_of_pipe[0], &two, sizeof(two)), static_cast<ssize_t>(sizeof(two)));
    group->kill();
    EXPECT_EQ(wait_for(two.shell), kSignalled);
  }
  EXPECT_TRUE(ends(two.below));
}

}  // namespace guarded_group_test
}  // namespace scalai
