// The system's date as a run sees it, for LD_PRELOAD: moved by as many nanoseconds as the file $SCALAI_CLOCK says, from
// one moment to the next. Other clocks are untouched. Waits of Abseil and gRPC until a date begin as under the moved
// date; one that has begun when the date moves stays as it is.

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

using Syscall = long (*)(long, ...);
Syscall real_syscall() {
  static const auto real = reinterpret_cast<Syscall>(::dlsym(RTLD_NEXT, "syscall"));
  return real;
}

// Not by mmap(): UCX asks for the time while it replaces the code of that function, and waits until it is done.
const std::atomic<int64_t>* offset() {
  static const std::atomic<int64_t>* const mapped = [] {
    const char* path = std::getenv("SCALAI_CLOCK");
    const int fd = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return static_cast<const std::atomic<int64_t>*>(nullptr);
    const long at = real_syscall()(SYS_mmap, nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0L);
    ::close(fd);
    return at == -1 ? nullptr : reinterpret_cast<const std::atomic<int64_t>*>(at);
  }();
  return mapped;
}

constexpr int64_t kSecond_ns = 1'000'000'000;

void move(struct timespec& time, int64_t by_ns) {
  const int64_t moved = time.tv_sec * kSecond_ns + time.tv_nsec + by_ns;
  time = {.tv_sec = moved / kSecond_ns, .tv_nsec = moved % kSecond_ns};
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, struct timespec* time) noexcept {
  using Function = int (*)(clockid_t, struct timespec*);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, time);
  if (result != 0 || clock != CLOCK_REALTIME || offset() == nullptr) return result;
  move(*time, offset()->load(std::memory_order_relaxed));
  return result;
}

extern "C" int gettimeofday(struct timeval* time, void*) noexcept {
  struct timespec now {};
  if (::clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

extern "C" time_t time(time_t* out) noexcept {
  struct timespec now {};
  if (::clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

// The kernel's own date has not moved: a wait until a date is until another one there.
extern "C" long syscall(long number, ...) noexcept {
  std::array<long, 6> words{};
  va_list rest;
  va_start(rest, number);
  for (long& word : words) word = va_arg(rest, long);
  va_end(rest);
  struct timespec until {};
  if (number == SYS_futex && (words[1] & FUTEX_CLOCK_REALTIME) != 0 && words[3] != 0 && offset() != nullptr) {
    until = *reinterpret_cast<const struct timespec*>(words[3]);
    move(until, -offset()->load(std::memory_order_relaxed));
    words[3] = reinterpret_cast<long>(&until);
  }
  return real_syscall()(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
