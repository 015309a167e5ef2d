#include "executor/rpc/process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "ptc/base/file.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"

namespace scalai::executor::rpc {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string ProcessEnd::str() const {
  return signal == 0 ? fmt::format("exit code {}", code)
                     : fmt::format("killed by signal {} ({})", signal, strsignal(signal));
}

std::string quoted_for_shell(const std::string& word) {
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

absl::StatusOr<Process> Process::start(const ProcessOptions& options) {
  SCALAI_CHECK(!options.arguments.empty(), "argv[0] is missing");
  SpawnOptions child{.program = options.binary,
                     .words = options.arguments,
                     .ends = {SpawnOptions::kNull, SpawnOptions::kNull, SpawnOptions::kNull},
                     .passes = options.passes,
                     .log_file = options.log_file,
                     .environment = options.environment,
                     .group = options.joins > 0 ? SpawnOptions::Group::kGroup : SpawnOptions::Group::kSession,
                     .joins = options.joins,
                     .close_others = true};  // a worker must not keep our sockets open
  SCALAI_ASSIGN_OR_RETURN(const pid_t pid, spawn(child));
  // Nobody else reaps our children, so the number cannot have been reused between the two calls.
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const absl::Status status = missing(fmt::format("cannot watch {}: {}", options.binary, std::strerror(errno)));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return status;
  }
  return Process(pid, pidfd);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::exchange(other.pidfd_, -1)), end_(other.end_) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(end_, other.end_);
  return *this;
}

Process::~Process() {
  if (pidfd_ < 0) return;
  poll();
  ::close(pidfd_);
}

absl::Status Process::signal(int number) {
  if (end_.has_value() || ::syscall(SYS_pidfd_send_signal, pidfd_, number, nullptr, 0) == 0 || errno == ESRCH) {
    return absl::OkStatus();
  }
  return failed(fmt::format("cannot send signal {} to process {}: {}", number, pid_, std::strerror(errno)));
}

absl::Status Process::kill() { return signal(SIGKILL); }

std::optional<ProcessEnd> Process::poll() {
  if (end_.has_value()) return end_;
  int status = 0;
  pid_t found = -1;
  do {
    found = ::waitpid(pid_, &status, WNOHANG);
  } while (found < 0 && errno == EINTR);
  SCALAI_CHECK(found >= 0, fmt::format("process {} was reaped elsewhere", pid_));
  if (found == pid_) {
    end_ = WIFSIGNALED(status) ? ProcessEnd{.signal = WTERMSIG(status)} : ProcessEnd{.code = WEXITSTATUS(status)};
    end_->pid = pid_;
  }
  return end_;
}

std::optional<ProcessEnd> Process::wait(double timeout_s) {
  const Clock::time_point until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                     std::chrono::duration<double>(std::min(timeout_s, 1e6)));
  while (!poll().has_value()) {
    const double left_s = std::chrono::duration<double>(until - Clock::now()).count();
    if (left_s <= 0) return std::nullopt;
    pollfd watched{.fd = pidfd_, .events = POLLIN, .revents = 0};
    ::poll(&watched, 1, static_cast<int>(std::ceil(left_s * 1000)));
  }
  return end_;
}

absl::Status Spawner::start(int32_t host, ProcessOptions options) {
  if (const auto found = running_.find(host); found != running_.end()) {
    return absl::AlreadyExistsError(fmt::format("host {} has a worker, process {}", host, found->second.pid()));
  }
  SCALAI_RETURN_IF_ERROR(make_folders(log_folder_));
  options.log_file = log_file(host);
  SCALAI_ASSIGN_OR_RETURN(Process process, Process::start(options));
  running_.emplace(host, std::move(process));
  return absl::OkStatus();
}

absl::Status Spawner::kill(int32_t host) {
  const auto found = running_.find(host);
  if (found == running_.end()) return missing(fmt::format("host {} has no local worker", host));
  return found->second.kill();
}

std::vector<std::pair<int32_t, ProcessEnd>> Spawner::reap() {
  std::vector<std::pair<int32_t, ProcessEnd>> ended;
  for (auto it = running_.begin(); it != running_.end();) {
    const std::optional<ProcessEnd> end = it->second.poll();
    if (end.has_value()) ended.emplace_back(it->first, *end);
    it = end.has_value() ? running_.erase(it) : std::next(it);
  }
  return ended;
}

std::optional<ProcessEnd> Spawner::wait(int32_t host, double timeout_s) {
  const auto found = running_.find(host);
  if (found == running_.end()) return std::nullopt;
  const std::optional<ProcessEnd> end = found->second.wait(timeout_s);
  if (end.has_value()) running_.erase(found);
  return end;
}

std::vector<std::pair<int32_t, ProcessEnd>> Spawner::end_all(double patience_s) {
  const Clock::time_point start = Clock::now();
  std::vector<std::pair<int32_t, ProcessEnd>> ended;
  for (auto& [host, process] : running_) {
    const double spent_s = std::chrono::duration<double>(Clock::now() - start).count();
    std::optional<ProcessEnd> end = process.wait(std::max(0.0, patience_s - spent_s));
    constexpr double kKillTakes_s = 60;  // a process in an uninterruptible call is left behind
    if (!end.has_value() && process.kill().ok()) end = process.wait(kKillTakes_s);
    if (end.has_value()) ended.emplace_back(host, *end);
  }
  running_.clear();
  return ended;
}

pid_t Spawner::pid(int32_t host) const {
  const auto found = running_.find(host);
  return found == running_.end() ? -1 : found->second.pid();
}

std::string Spawner::log_file(int32_t host) const { return fmt::format("{}/worker-{}.log", log_folder_, host); }

}  // namespace scalai::executor::rpc
