#include "apps/sim_workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "ptc/base/status.h"

extern char** environ;

namespace scalai::apps {
namespace {

constexpr int kKilled = 70;

// One process and the ends of its output that we read.
struct Worker {
  size_t run = 0;
  pid_t pid = -1;
  std::array<int, 2> ends = {-1, -1};  // stdout, stderr; −1 = at its end
  std::array<std::string, 2> texts;
};

void close_end(int& end) {
  if (end >= 0) ::close(end);
  end = -1;
}

absl::StatusOr<Worker> spawn(const std::string& program, const std::vector<std::string>& words, size_t run) {
  Worker worker{.run = run};
  std::array<std::array<int, 2>, 2> pipes;
  for (auto& pipe : pipes) {
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
      return failed(fmt::format("cannot open a pipe: {}", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipes[0][1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipes[1][1], STDERR_FILENO);
  std::vector<std::string> all = {program};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int error = posix_spawnp(&worker.pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  for (size_t k = 0; k < 2; ++k) {
    ::close(pipes[k][1]);
    worker.ends[k] = pipes[k][0];
    if (error != 0) close_end(worker.ends[k]);
  }
  if (error != 0) return failed(fmt::format("cannot start {}: {}", program, std::strerror(error)));
  return worker;
}

void read_some(Worker& worker, size_t k) {
  std::array<char, 65536> buffer;
  const ssize_t n = ::read(worker.ends[k], buffer.data(), buffer.size());
  if (n > 0) worker.texts[k].append(buffer.data(), static_cast<size_t>(n));
  if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) close_end(worker.ends[k]);
}

// The first error; what a policy program says is shown as "policy: …" and is not ours.
std::string telling_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error:") != std::string::npos && !line.starts_with("policy: ")) return line;
    if (!line.empty()) last = line;
  }
  return last;
}

SimResult finish(Worker& worker) {
  int status = 0;
  while (::waitpid(worker.pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : kKilled,
          .out = std::move(worker.texts[0]),
          .error = telling_line(worker.texts[1])};
}

// Reads from all until one has closed both ends; its place.
size_t wait_for_one(std::vector<Worker>& workers) {
  while (true) {
    std::vector<pollfd> ends;
    std::vector<std::pair<size_t, size_t>> places;
    for (size_t w = 0; w < workers.size(); ++w) {
      if (workers[w].ends[0] < 0 && workers[w].ends[1] < 0) return w;
      for (size_t k = 0; k < 2; ++k) {
        if (workers[w].ends[k] < 0) continue;
        ends.push_back({workers[w].ends[k], POLLIN, 0});
        places.emplace_back(w, k);
      }
    }
    ::poll(ends.data(), ends.size(), -1);
    for (size_t e = 0; e < ends.size(); ++e) {
      if (ends[e].revents != 0) read_some(workers[places[e].first], places[e].second);
    }
  }
}

bool on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((std::filesystem::path(folder) / name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::string> find_simulator() {
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::string beside = (self.parent_path() / "scalai-sim").string();
  if (!self.empty() && ::access(beside.c_str(), X_OK) == 0) return beside;
  if (on_path("scalai-sim")) return "scalai-sim";
  return missing(
      fmt::format("scalai-sim is neither in {} nor on PATH\nhint: install the package scalai-sim, or build the "
                  "CMake target scalai-sim (it needs SimGrid)",
                  self.parent_path().string()));
}

absl::Status run_processes(const std::string& program, const std::vector<std::vector<std::string>>& runs,
                           size_t at_once,
                           const std::function<absl::Status(size_t run, const SimResult& result)>& done) {
  std::vector<Worker> workers;
  absl::Status status;
  size_t next = 0;
  while (!workers.empty() || (status.ok() && next < runs.size())) {
    if (status.ok() && next < runs.size() && workers.size() < std::max<size_t>(1, at_once)) {
      auto worker = spawn(program, runs[next], next);
      if (worker.ok())
        workers.push_back(*std::move(worker));
      else
        status = worker.status();
      ++next;
      continue;
    }
    const size_t ended = wait_for_one(workers);
    const SimResult result = finish(workers[ended]);
    const size_t run = workers[ended].run;
    workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(ended));
    if (status.ok()) status = done(run, result);
  }
  return status;
}

}  // namespace scalai::apps
