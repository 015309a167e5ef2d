#include "apps/common/sim_workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "ptc/base/process.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

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
  SpawnOptions options{.program = program,
                       .words = words,
                       .ends = {SpawnOptions::kNull, pipes[0][1], pipes[1][1]},
                       .environment = {as_typed()}};
  options.words.insert(options.words.begin(), program);
  const absl::StatusOr<pid_t> pid = scalai::spawn(options);
  for (size_t k = 0; k < 2; ++k) {
    ::close(pipes[k][1]);
    worker.ends[k] = pipes[k][0];
    if (!pid.ok()) close_end(worker.ends[k]);
  }
  SCALAI_RETURN_IF_ERROR(pid.status());
  worker.pid = *pid;
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
  return {.exit_code = wait_for(worker.pid),
          .out = std::move(worker.texts[0]),
          .messages = worker.texts[1],
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

}  // namespace

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
