#include "ptc/base/guarded_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "ptc/base/status.h"

namespace scalai {
namespace {

void close_range_of(unsigned int first, unsigned int last) {
  constexpr unsigned int kMost = 4096;  // on kernels without the call
  if (first > last || ::syscall(SYS_close_range, first, last, 0U) == 0) return;
  for (unsigned int fd = first; fd <= std::min(last, kMost); ++fd) ::close(static_cast<int>(fd));
}

// Of a process that may have threads: calls of the system only.
[[noreturn]] void guard(int end) {
  ::setpgid(0, 0);
  close_range_of(0, static_cast<unsigned int>(end) - 1);
  close_range_of(static_cast<unsigned int>(end) + 1, UINT_MAX);
  char none = 0;
  while (::read(end, &none, 1) < 0 && errno == EINTR) {
  }
  ::kill(0, SIGKILL);
  ::_exit(0);
}

}  // namespace

absl::StatusOr<GuardedGroup> GuardedGroup::start() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  const FileDescriptor read(ends[0]);
  GuardedGroup group;
  group.held_ = FileDescriptor(ends[1]);
  group.guard_ = ::fork();
  if (group.guard_ < 0) return failed(fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (group.guard_ == 0) guard(read.get());
  ::setpgid(group.guard_, group.guard_);  // whoever is first
  return group;
}

GuardedGroup::GuardedGroup(GuardedGroup&& other) noexcept
    : guard_(std::exchange(other.guard_, -1)), held_(std::move(other.held_)) {}

GuardedGroup& GuardedGroup::operator=(GuardedGroup&& other) noexcept {
  std::swap(guard_, other.guard_);
  std::swap(held_, other.held_);
  return *this;
}

GuardedGroup::~GuardedGroup() {
  if (guard_ < 0) return;
  ::kill(guard_, SIGKILL);
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void GuardedGroup::kill() {
  if (guard_ > 0) ::kill(-guard_, SIGKILL);
}

}  // namespace scalai
