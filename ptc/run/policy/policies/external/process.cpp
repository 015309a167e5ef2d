#include "ptc/run/policy/policies/external/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "ptc/base/process.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

constexpr size_t kMaxLineBytes = size_t{64} << 20;
constexpr size_t kErrorLinesKept = 8, kErrorLineBytes = 400;
constexpr size_t kErrorBytesAtOnce = size_t{128} << 10;  // twice what a pipe holds: a program that ended is read whole
constexpr size_t kErrorLineShown = size_t{64} << 10;     // the rest of a longer line is dropped
constexpr double kGraceS = 1;                            // to end by itself after EOF, and again after SIGTERM

struct Pipe {
  int read = -1, write = -1;
};

bool open_pipe(Pipe& pipe) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  pipe = {ends[0], ends[1]};
  return true;
}

void close_end(int& end) {
  if (end >= 0) ::close(end);
  end = -1;
}

void make_non_blocking(int end) { ::fcntl(end, F_SETFL, ::fcntl(end, F_GETFL) | O_NONBLOCK); }

// A write to a program that is gone raises SIGPIPE, which would end us: it is held back and taken away here.
class WithoutSigPipe {
 public:
  WithoutSigPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigPipe() {
    const timespec none{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &none);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

// A process group of its own, signals as a shell expects them.
absl::StatusOr<pid_t> spawn_shell(const std::string& command, const std::string& folder,
                                  const std::array<int, 3>& ends) {
  return spawn({.program = "/bin/sh",
                .words = {"sh", "-c", command},
                .ends = ends,
                .folder = folder,
                .group = SpawnOptions::Group::kGroup});
}

std::string describe(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LineProcess>> LineProcess::start(const std::string& command, const std::string& folder,
                                                                const std::string& prefix) {
  Pipe in, out, err;
  const bool opened = open_pipe(in) && open_pipe(out) && open_pipe(err);
  const absl::StatusOr<pid_t> pid =
      opened ? spawn_shell(command, folder, {in.read, out.write, err.write}) : failed(std::strerror(errno));
  close_end(in.read);
  close_end(out.write);
  close_end(err.write);
  if (!pid.ok()) {
    close_end(in.write);
    close_end(out.read);
    close_end(err.read);
    return failed(fmt::format("cannot start \"{}\": {}", command, message_of(pid.status())));
  }
  std::unique_ptr<LineProcess> process(new LineProcess);
  process->prefix_ = prefix;
  process->pid_ = *pid;
  process->in_ = in.write;
  process->out_ = out.read;
  process->err_ = err.read;
  for (const int end : {in.write, out.read, err.read}) make_non_blocking(end);
  return process;
}

LineProcess::~LineProcess() { stop(); }

absl::StatusOr<std::string> LineProcess::ask(const std::string& line, double timeout_s) {
  receive_some();
  if (!received_.empty()) {
    return failed(fmt::format("it wrote without a request: {}", received_.substr(0, received_.find('\n'))));
  }
  const auto wait = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_s));
  SCALAI_RETURN_IF_ERROR(exchange(line + "\n", Clock::now() + wait, timeout_s));
  const size_t end = received_.find('\n');
  std::string answer = received_.substr(0, end);
  received_.erase(0, end + 1);
  searched_ = 0;
  return answer;
}

// Both directions at once: a program may answer while a long line is still on its way to it.
absl::Status LineProcess::exchange(const std::string& out, Clock::time_point deadline, double timeout_s) {
  size_t sent = 0;
  while (true) {
    if (received_.find('\n', searched_) != std::string::npos) return absl::OkStatus();
    searched_ = received_.size();
    if (received_.size() > kMaxLineBytes) return failed("it wrote a line of more than 64 MiB");
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    if (left <= 0) return failed(fmt::format("it gave no answer within {} s{}", timeout_s, last_words()));
    std::array<pollfd, 3> ends = {pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0},
                                  pollfd{sent < out.size() ? in_ : -1, POLLOUT, 0}};
    if (::poll(ends.data(), ends.size(), static_cast<int>(std::min(left * 1000 + 1, 1e6))) < 0 && errno != EINTR) {
      return failed(fmt::format("cannot wait for it: {}", std::strerror(errno)));
    }
    receive_errors();
    if ((ends[2].revents & (POLLERR | POLLOUT)) != 0 && !send_some(out, sent))
      sent = out.size();  // it may have answered
    if (!receive_some() && received_.find('\n', searched_) == std::string::npos) {
      return failed(fmt::format("it {}{}", ended(), last_words()));
    }
  }
}

bool LineProcess::send_some(const std::string& out, size_t& sent) {
  const WithoutSigPipe guard;
  const ssize_t n = ::write(in_, out.data() + sent, out.size() - sent);
  if (n > 0) sent += static_cast<size_t>(n);
  return n >= 0 || errno == EAGAIN || errno == EINTR;
}

bool LineProcess::receive_some() {
  std::array<char, 65536> buffer;
  while (received_.size() <= kMaxLineBytes) {
    const ssize_t n = ::read(out_, buffer.data(), buffer.size());
    if (n > 0)
      received_.append(buffer.data(), static_cast<size_t>(n));
    else if (n == 0)
      return false;
    else if (errno != EINTR)
      return errno == EAGAIN;
  }
  return true;
}

// A bounded part of what there is: a program that writes faster than we read must not keep us from our deadline.
void LineProcess::receive_errors() {
  if (err_ < 0) return;
  std::array<char, 4096> buffer;
  ssize_t n = 0;
  for (size_t taken = 0; taken < kErrorBytesAtOnce; taken += static_cast<size_t>(n)) {
    n = ::read(err_, buffer.data(), buffer.size());
    if (n <= 0) break;
    take_errors(std::string_view(buffer.data(), static_cast<size_t>(n)));
  }
  if (n != 0) return;
  close_end(err_);  // poll would report its end again and again
  if (!error_part_.empty()) show_error_line(std::exchange(error_part_, ""));
}

void LineProcess::take_errors(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view part = text.substr(0, end);
    error_part_ += part.substr(0, kErrorLineShown - error_part_.size());
    if (end == std::string_view::npos) return;
    show_error_line(std::exchange(error_part_, ""));
    text.remove_prefix(end + 1);
  }
}

void LineProcess::show_error_line(const std::string& line) {
  say("{}{}\n", prefix_, line);
  error_lines_.push_back(line.substr(0, kErrorLineBytes));
  if (error_lines_.size() > kErrorLinesKept) error_lines_.pop_front();
}

std::string LineProcess::last_words() {
  receive_errors();
  if (error_lines_.empty()) return "";
  return fmt::format("; its last line on stderr: {}", error_lines_.back());
}

// Whatever else is left of its group goes with the program, before the group's number can be another's.
bool LineProcess::reap(int& status, double wait_s) {
  const auto until = Clock::now() + std::chrono::duration<double>(wait_s);
  while (pid_ > 0) {
    siginfo_t end{};
    const int error = ::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT);
    if (error == 0 && end.si_pid == pid_) {
      ::kill(-pid_, SIGKILL);
      while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
      }
      pid_ = -1;
    } else if (error != 0 && errno != EINTR) {
      pid_ = -1;  // somebody else has waited for it
    } else if (Clock::now() >= until) {
      return false;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return true;
}

std::string LineProcess::ended() {
  int status = 0;
  const bool was_there = pid_ > 0;
  if (!was_there) return "had ended before";
  return reap(status, kGraceS) ? describe(status) : "closed its output";
}

void LineProcess::stop() {
  close_end(in_);
  int status = 0;
  const pid_t group = pid_;
  if (!reap(status, kGraceS)) {
    ::kill(-group, SIGTERM);
    if (!reap(status, kGraceS)) {
      ::kill(-group, SIGKILL);
      reap(status, 10);
    }
  }
  receive_errors();
  close_end(out_);
  close_end(err_);
}

}  // namespace scalai::policy
