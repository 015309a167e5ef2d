#include "labs/near/supervise.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <vector>

namespace scalai::near {
namespace {

constexpr double kPatience_s = 15;  // a mount has ten for threads that read
constexpr int kLook_ms = 100;
constexpr std::array<int, 3> kEnding = {SIGINT, SIGTERM, SIGHUP};

// Those of kEnding that count: under nohup SIGHUP does not.
sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : kEnding) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&signals, number);
  }
  return signals;
}

class Supervision {
 public:
  explicit Supervision(pid_t work) : work_(work), signals_(ending_signals()) { sigaddset(&signals_, SIGCHLD); }

  WorkEnd run() {
    while (work_ > 0) {
      const int number = next(std::nullopt);
      if (number > 0) {
        if (end_.signal != 0) impatient_ = true;
        if (end_.signal == 0) end_.signal = number;
        ::kill(work_, SIGKILL);  // all its threads at once: none goes on with half of what it needs
      }
      reap();
    }
    end_the_rest();
    return end_;
  }

 private:
  // A signal that ends; 0: none of them, but maybe a child has ended.
  int next(std::optional<int> patience_ms) {
    const timespec moment{.tv_sec = 0, .tv_nsec = patience_ms.value_or(0) * 1'000'000L};
    const int number = patience_ms ? ::sigtimedwait(&signals_, nullptr, &moment) : ::sigwaitinfo(&signals_, nullptr);
    return number == SIGCHLD ? 0 : number;
  }

  // False: there are no children any more.
  bool reap() {
    for (;;) {
      int status = 0;
      const pid_t found = ::waitpid(-1, &status, WNOHANG);
      if (found < 0 && errno == EINTR) continue;
      if (found <= 0) return found == 0;
      if (found != work_) continue;
      work_ = -1;
      end_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
      if (end_.signal == 0 && WIFSIGNALED(status)) end_.signal = WTERMSIG(status);
    }
  }

  // What the work started is a child of this process by now. What is in this group, as mounts and commands here, is
  // told to end. Others, as workers, have seen the end of their input.
  void end_the_rest() {
    if (end_.signal == 0) return;
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatience_s);
    while (reap()) {
      for (const pid_t child : children()) {
        if (impatient_) {
          ::kill(child, SIGKILL);
        } else if (::getpgid(child) == ::getpgrp() && told_.insert(child).second) {
          ::kill(child, SIGTERM);
        }
      }
      if (std::chrono::steady_clock::now() > until + std::chrono::seconds(1)) return;  // what is left is in the kernel
      if (next(kLook_ms) > 0 || std::chrono::steady_clock::now() > until) impatient_ = true;
    }
  }

  static std::vector<pid_t> children() {
    std::ifstream listed(fmt::format("/proc/self/task/{}/children", ::getpid()));
    return {std::istream_iterator<pid_t>(listed), std::istream_iterator<pid_t>()};
  }

  pid_t work_;
  sigset_t signals_;
  bool impatient_ = false;  // so is somebody who sends a second signal
  std::set<pid_t> told_;
  WorkEnd end_;
};

}  // namespace

WorkEnd supervise(const std::function<int()>& work) {
  std::signal(SIGCHLD, SIG_DFL);  // else nobody could wait for children
  sigset_t signals = ending_signals(), before;
  sigaddset(&signals, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &signals, &before);
  std::fflush(nullptr);
  const pid_t self = ::getpid(), pid = ::fork();
  if (pid > 0) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    return Supervision(pid).run();  // signals stay blocked until end_as
  }
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != self) ::_exit(128 + SIGKILL);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {.code = work()};  // also where there is no room for a process: it will find that out
}

int end_as(const WorkEnd& end) {
  if (end.signal == 0) return end.code;
  std::fflush(nullptr);
  const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};  // the work has left its own
  ::setrlimit(RLIMIT_CORE, &no_core);
  std::signal(end.signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, end.signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(end.signal);
  return 128 + end.signal;
}

}  // namespace scalai::near
