#include "apps/sim/sim_family.h"

#include <sys/wait.h>

#include <cerrno>
#include <map>

#include "ptc/base/parallel.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

absl::StatusOr<pid_t> start(std::vector<std::string> words) {
  SpawnOptions options{.program = "/proc/self/exe", .words = std::move(words)};
  options.ends[1] = SpawnOptions::kNull;
  return spawn(options);
}

std::pair<pid_t, int> reap() {
  int status = 0;
  pid_t pid = -1;
  do {
    pid = ::waitpid(-1, &status, 0);
  } while (pid < 0 && errno == EINTR);
  return {pid, WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled};
}

}  // namespace

absl::StatusOr<std::vector<FamilyMember>> run_family(const std::vector<std::string>& arguments,
                                                     const std::vector<std::string>& strategies,
                                                     const std::string& folder) {
  const size_t at_once = hardware_threads();
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
    absl::StatusOr<pid_t> pid = start(words);
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
