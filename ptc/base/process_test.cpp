#include "ptc/base/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/internal/program_text.h"
#include "ptc/base/status.h"

namespace scalai {
namespace {

using ::testing::HasSubstr;

class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest() : folder_(::testing::TempDir() + "process_test." + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~ProcessTest() override { std::filesystem::remove_all(folder_); }

  // What a shell command says on both outputs, and its exit code.
  std::pair<std::string, int> shell(const std::string& command, SpawnOptions options = {}) const {
    options.program = "sh";  // by PATH
    options.words = {"sh", "-c", command};
    options.log_file = folder_ + "/log";
    std::filesystem::remove(options.log_file);
    const absl::StatusOr<pid_t> pid = spawn(options);
    EXPECT_TRUE(pid.ok()) << pid.status();
    if (!pid.ok()) return {"", -1};
    const int code = wait_for(*pid);
    return {read_file(options.log_file).value_or(""), code};
  }

  const std::string folder_;
};

TEST_F(ProcessTest, GivesWordsOutputAndExitCode) {
  EXPECT_EQ(shell("echo out; echo err >&2; exit 3"), std::pair(std::string("out\nerr\n"), 3));
  EXPECT_EQ(shell("kill -9 $$").second, kSignalled);
}

TEST_F(ProcessTest, FolderAndEnvironment) {
  ::setenv("SCALAI_PROCESS_TEST", "ours", 1);
  EXPECT_EQ(shell("pwd -P; echo $SCALAI_PROCESS_TEST", {.folder = folder_}).first,
            std::filesystem::canonical(folder_).string() + "\nours\n");
  EXPECT_EQ(shell("echo $SCALAI_PROCESS_TEST", {.environment = {{"SCALAI_PROCESS_TEST", "theirs"}}}).first, "theirs\n");
  SpawnOptions bare;
  bare.inherit_environment = false;
  EXPECT_EQ(shell("echo \"[$SCALAI_PROCESS_TEST]\"", bare).first, "[]\n");
}

TEST_F(ProcessTest, ClosesOtherDescriptors) {
  const int fd = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as libraries do
  ASSERT_GE(fd, 0);
  const std::string ask = "[ -e /proc/self/fd/" + std::to_string(fd) + " ] && echo open || echo closed";
  EXPECT_EQ(shell(ask).first, "open\n");
  EXPECT_EQ(shell(ask, {.close_others = true}).first, "closed\n");
  ::close(fd);
}

TEST_F(ProcessTest, OwnGroupOrSessionStartsWithDefaultSignals) {
  const auto before = std::signal(SIGTERM, SIG_IGN);
  EXPECT_EQ(shell("kill -TERM $$; echo alive").first, "alive\n");
  for (const auto group : {SpawnOptions::Group::kGroup, SpawnOptions::Group::kSession}) {
    EXPECT_EQ(shell("kill -TERM $$; echo alive", {.group = group}).first, "");
  }
  std::signal(SIGTERM, before);
}

TEST_F(ProcessTest, RefusalsSayWhy) {
  const auto nothing = spawn({.program = folder_ + "/nothing"});
  EXPECT_EQ(nothing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message_of(nothing.status()), HasSubstr("cannot start"));
  EXPECT_TRUE(absl::IsPermissionDenied(spawn({.program = "/etc/passwd"}).status()));
  const auto log = spawn({.program = "true", .log_file = folder_ + "/no/log"});
  EXPECT_THAT(message_of(log.status()), HasSubstr("no/log: cannot write: No such file or directory"));
  const auto unknown = find_program("scalai-no-such-program");
  EXPECT_EQ(exit_code_of(unknown.status()), 4);
  EXPECT_THAT(message_of(unknown.status()), HasSubstr("is neither in"));
  EXPECT_THAT(message_of(unknown.status()), HasSubstr("hint: install the package scalai-no-such-program"));
  EXPECT_EQ(missing_program_hint("scalai-near"),
            "hint: it is part of labs/near; a build with SCALAI_LABS=OFF leaves it out, one with ON has the target "
            "scalai-near");
}

TEST_F(ProcessTest, AScriptWithoutAFirstLineIsOneOfSh) {
  ASSERT_TRUE(write_file(folder_ + "/scalai-script", "echo \"$0 $1 $2\"; exit 7").ok());
  std::filesystem::permissions(folder_ + "/scalai-script", std::filesystem::perms::owner_all);
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", (before + ":" + folder_).c_str(), 1);
  for (const std::string& name : {std::string("scalai-script"), folder_ + "/scalai-script"}) {
    SpawnOptions options{.program = name, .words = {name, "a b", "$c"}, .log_file = folder_ + "/log"};
    EXPECT_TRUE(absl::IsNotFound(spawn(options).status()));
    options.runs_scripts = true;
    std::filesystem::remove(options.log_file);
    const auto pid = spawn(options);
    ASSERT_TRUE(pid.ok()) << pid.status();
    EXPECT_EQ(wait_for(*pid), 7);
    EXPECT_EQ(read_file(options.log_file).value_or(""), folder_ + "/scalai-script a b $c\n");
  }
  ::setenv("PATH", before.c_str(), 1);
}

TEST_F(ProcessTest, FindsProgramsOnThePath) { EXPECT_EQ(find_program("sh").value_or(""), "sh"); }

// What a program has become, and what it has started, knows what was typed; others do not.
TEST_F(ProcessTest, TheCommandAsItWasTyped) {
  ::unsetenv("SCALAI_COMMAND_LINE");
  EXPECT_THAT(command_line(), HasSubstr("ptc_base_test"));
  const auto received = [](int pid) {
    ::setenv("SCALAI_COMMAND_LINE", (std::to_string(pid) + " scalai sim 'a b.textproto'").c_str(), 1);
    return command_line();
  };
  EXPECT_EQ(received(::getpid()), "scalai sim 'a b.textproto'");
  EXPECT_EQ(as_typed().second, std::to_string(::getpid()) + " scalai sim 'a b.textproto'");
  EXPECT_EQ(received(::getppid()), "scalai sim 'a b.textproto'");
  EXPECT_THAT(received(1 << 30), HasSubstr("ptc_base_test")) << "of a process that is not ours";
  ::unsetenv("SCALAI_COMMAND_LINE");
}

}  // namespace
}  // namespace scalai
