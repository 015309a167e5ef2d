#include "apps/sim_family.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <thread>

#include "ptc/base/status.h"

extern char** environ;

namespace scalai::apps {
namespace {

absl::StatusOr<pid_t> spawn(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return failed(fmt::format("cannot start {}: {}", words.front(), std::strerror(error)));
  return pid;
}

constexpr int kKilled = 70;

// Waits for any child; its pid and exit code.
std::pair<pid_t, int> reap() {
  int status = 0;
  pid_t pid = -1;
  do {
    pid = ::waitpid(-1, &status, 0);
  } while (pid < 0 && errno == EINTR);
  return {pid, WIFEXITED(status) ? WEXITSTATUS(status) : kKilled};
}

}  // namespace

absl::StatusOr<std::vector<FamilyMember>> run_family(const std::vector<std::string>& arguments,
                                                     const std::vector<std::string>& strategies,
                                                     const std::string& folder) {
  const size_t at_once = std::max(1u, std::thread::hardware_concurrency());
  std::vector<FamilyMember> members;
  std::map<pid_t, size_t> running;
  const auto wait_for_one = [&] {
    const auto [pid, code] = reap();
    members[running.at(pid)].exit_code = code;
    running.erase(pid);
  };
  for (const std::string& strategy : strategies) {
    if (running.size() >= at_once) wait_for_one();
    FamilyMember member{.strategy = strategy, .folder = folder + "/" + strategy};
    std::vector<std::string> words = {"scalai-sim"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--strategy=" + strategy, "--out=" + member.folder});
    absl::StatusOr<pid_t> pid = spawn(words);
    if (!pid.ok()) {
      while (!running.empty()) wait_for_one();
      return pid.status();
    }
    running[*pid] = members.size();
    members.push_back(std::move(member));
  }
  while (!running.empty()) wait_for_one();
  return members;
}

}  // namespace scalai::apps
